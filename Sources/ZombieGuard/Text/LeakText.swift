// Describes leaks and retain cycles in words.

extension Finding.Leak.Step {
    /// "Feed.listener", "element of [Feed]", "box". Safe to print.
    var text: String {
        switch place {
        case "element": "element of \(type)"
        case "field": member.map { "\(type).\(visible($0))" } ?? type
        default: type
        }
    }

    /// "[Feed]", "a block of 48 bytes". Safe to print.
    package var type: String { className.map { SwiftTypeText.shortClass($0) } ?? "a block of \(size) bytes" }

    /// "closure #1 in Session.start() (session.swift:40)"; nil if the reference is no closure. Safe to print.
    var closure: String? {
        guard let code, let function = code.function,
            !["reabstraction thunk", "thunk for "].contains(where: { function.hasPrefix($0) })
        else { return nil }
        var named = code
        let prefix = "partial apply for "
        if function.hasPrefix(prefix) { named.function = String(function.dropFirst(prefix.count)) }
        return named.shortPlace
    }
}

extension SwiftTypeText {
    // Generic types that source code writes in a shorter form: prefix of the full name, and the text before, between
    // and behind the arguments.
    private static let sugar = [
        ("Swift._ContiguousArrayStorage<", "[", ", ", "]"), ("Swift._DictionaryStorage<", "[", ": ", "]"),
        ("Swift._SetStorage<", "Set<", ", ", ">"), ("Swift.Array<", "[", ", ", "]"),
        ("Swift.Dictionary<", "[", ": ", "]"), ("Swift.Optional<", "", ", ", "?"),
    ]
    private static let deepestSugar = 8

    /// The name of a class without modules, safe to print. The storage classes of arrays, dictionaries and sets get the
    /// name of the collection in source code.
    package static func shortClass(_ name: String) -> String { visible(sugared(Substring(name), 0)) }

    private static func sugared(_ name: Substring, _ depth: Int) -> String {
        for (prefix, open, separator, close) in sugar where name.hasPrefix(prefix) && name.hasSuffix(">") {
            let arguments = parts(name.dropFirst(prefix.count).dropLast())
            if depth == deepestSugar || arguments.count != (separator == ": " ? 2 : 1) { break }
            let text = arguments.map { sugared($0, depth + 1) }.joined(separator: separator)
            // "(any P)?" and "(() -> ())?" need brackets.
            let needsBrackets = close == "?" && text.contains(" ") && !text.hasSuffix("]")
            return needsBrackets ? "(\(text))?" : open + text + close
        }
        return short(name)
    }

    // Splits generic arguments at the commas between them.
    private static func parts(_ text: Substring) -> [Substring] {
        var parts: [Substring] = []
        var depth = 0
        var start = text.startIndex
        for index in text.indices {
            switch text[index] {
            case "<", "(", "[": depth += 1
            case ">", ")", "]": depth -= 1
            case "," where depth == 0:
                parts.append(text[start..<index])
                start = text.index(after: index)
            default: break
            }
        }
        return (parts + [text[start...]]).map { $0.drop { $0 == " " } }
    }
}

extension Finding {
    /// "Timer.handler → closure #1 in Session.start() (session.swift:40) → Session.timer → Timer". Safe to print.
    package var cyclePath: String? {
        guard let cycle = leak?.cycle, let first = cycle.first else { return nil }
        var parts: [String] = []
        for (index, step) in cycle.enumerated() {
            // Omit the context of a closure if the previous step has named the closure.
            let isNamed = step.className == Leak.Step.contextName && index > 0 && cycle[index - 1].code != nil
            if !isNamed { parts.append(step.text) }
            if let closure = step.closure { parts.append(closure) }
        }
        return (parts + [first.type]).joined(separator: " → ")
    }

    /// "3 blocks of 144 bytes are lost, allocated in openFeed() (feed.c:12)"
    var leakSentence: String {
        guard let leak else {
            return kind == .leak ? "nothing refers to a live block" : "objects keep only each other alive"
        }
        let isOne = leak.blocks == 1
        let bytes = "\(leak.bytes) byte\(leak.bytes == 1 ? "" : "s")"
        if let cyclePath {
            let objects =
                leak.cycle.count == 1 ? "an object keeps itself" : "\(leak.cycle.count) objects keep each other"
            return "\(objects) alive: \(cyclePath); \(isOne ? "1 block" : "\(leak.blocks) blocks") (\(bytes)) lost"
        }
        var text =
            if let className = block?.className {
                isOne
                    ? "nothing refers to a live \(visible(className)) (\(bytes))"
                    : "nothing refers to \(leak.blocks) live objects of \(visible(className)) (\(bytes))"
            } else {
                isOne
                    ? "nothing refers to a live block of \(bytes)"
                    : "nothing refers to \(leak.blocks) live blocks (\(bytes))"
            }
        if leak.indirectBlocks > 0 {
            let more = leak.indirectBlocks == 1 ? "1 more block" : "\(leak.indirectBlocks) more blocks"
            text += ", which alone lead\(isOne ? "s" : "") to \(more) (\(leak.indirectBytes) bytes)"
        }
        if let origin = stacks.alloc.origin { text += "; allocated in \(origin.shortPlace)" }
        return text
    }
}

extension Finding.Leak {
    /// The objects of a cycle after the first one, with their allocation stacks.
    package var otherObjects: [(title: String, stack: [Finding.Frame])] {
        cycle.dropFirst().map { step in
            ("\(step.type), allocated here", step.alloc)
        }
    }
}
