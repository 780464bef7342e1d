// Describes in words which places still point to a freed block.

extension Finding.Holder {
    /// "Feed.listener of a live Shop.Feed (allocated in openFeed(), feed.swift:12)". Safe to print.
    package var text: String {
        let times = count > 1 ? " (\(count) times)" : ""
        return words + times
    }

    /// Like ``text``, but without modules and allocations, for a step of a path: "Feed.listener", "element of [Feed]",
    /// "closure context", "the global 'current' (libshop.so)". Safe to print.
    package var shortText: String {
        let type = className.map { SwiftTypeText.shortClass($0) }
        switch place {
        case Place.field: return "\(type ?? "object").\(visible(member ?? "?"))"
        case Place.element: return "element of \(type ?? "an object")"
        case Place.capture: return type ?? "box"
        case Place.global, Place.threadLocal, Place.stack: return words
        default: return block.map { type ?? "a block of \($0.size) byte\($0.size == 1 ? "" : "s")" } ?? words
        }
    }

    private var words: String {
        switch place {
        case Place.global:
            guard let symbol else { return "a global\(image.map { " of \($0)" } ?? "")" }
            return "the global '\(visible(symbol))'\(image.map { " (\($0))" } ?? "")"
        case Place.threadLocal:
            let name = symbol.map { "the thread-local variable '\(visible($0))'" } ?? "a thread-local variable"
            return name + (thread.map { " of \(Self.name($0))" } ?? "")
        case Place.stack:
            let function = frame.map { $0.function.map { visible(withoutMangledEnd($0)) } ?? $0.moduleAndOffset }
            return "a local of \(function ?? "an unknown function")" + (thread.map { " in \(Self.name($0))" } ?? "")
        default: return blockWords + (origin.map { " (allocated in \($0))" } ?? "")
        }
    }

    private var blockWords: String {
        guard let block else { return "a word of memory that the program has mapped" }
        let type = className.map { SwiftTypeText.shortClass($0) }
        switch place {
        case Place.field:
            let owner = type ?? "object"
            return "\(owner).\(visible(member ?? "?")) of a live \(className.map { visible($0) } ?? owner)"
        case Place.element: return "an element of a live \(type ?? "object")"
        case Place.capture where className == Finding.Leak.Step.contextName: return "a closure that has captured it"
        case Place.capture:
            let box = type ?? "box"
            return "\(box.hasPrefix("indirect ") ? "an" : "a") \(box) that holds it"
        default:
            let owner = className.map { visible($0) } ?? "block of \(block.size) byte\(block.size == 1 ? "" : "s")"
            return "offset \(block.offset ?? 0) of a live \(owner)"
        }
    }

    /// The upper line of a box in the picture of a path (``HolderPicture``): "global (libshop.so)", "Shop.Feed". Not
    /// safe to print.
    package var boxKind: String {
        switch place {
        case Place.global: "global" + (frame?.moduleName.map { " (\($0))" } ?? "")
        case Place.threadLocal: "thread-local" + (thread.map { ", \(Self.name($0))" } ?? "")
        case Place.stack: "local variable" + (thread.map { ", \(Self.name($0))" } ?? "")
        case Place.memory where block == nil: "mapped memory"
        case Place.capture: className == Finding.Leak.Step.contextName ? "closure" : "box"
        default:
            className.map { SwiftTypeText.shortClass($0) } ?? block.map {
                "block of \($0.size) byte\($0.size == 1 ? "" : "s")"
            } ?? "?"
        }
    }

    /// The lower line of the box, which names the variable or field that holds the pointer: "current", ".listener",
    /// "offset 16". Not safe to print.
    package var boxName: String {
        switch place {
        case Place.global, Place.threadLocal: symbol ?? "without a name"
        case Place.stack: frame.map { "in " + ($0.function.map { withoutMangledEnd($0) } ?? $0.moduleAndOffset) } ?? "?"
        case Place.field: ".\(member ?? "?")"
        case Place.element: "[element]"
        case Place.capture: "captured value"
        default: block.map { "offset \($0.offset ?? 0)" } ?? "a word"
        }
    }

    private var image: String? { frame?.moduleName.map { visible($0) } }

    // "openFeed(), feed.swift:12"
    package var origin: String? {
        // Skip initializers: the line of their caller is more informative.
        let callers = alloc.filter { !($0.function?.contains(".__allocating_init(") ?? false) }
        guard let origin = callers.origin ?? alloc.origin else { return nil }
        guard let function = origin.function, let file = origin.file else { return origin.shortPlace }
        let name = file.split(separator: "/").last.map(String.init) ?? file
        return "\(visible(withoutMangledEnd(function))), \(visible(name))\(origin.line.map { ":\($0)" } ?? "")"
    }

    private static func name(_ thread: Finding.Thread) -> String {
        let name = thread.name ?? ""
        if thread.id == 0 { return name.isEmpty ? "another thread" : "thread \(visible(name))" }
        return "thread \(thread.id)" + (name.isEmpty ? "" : " (\(visible(name)))")
    }
}

extension Finding {
    private static let mostHoldersNamed = 4

    /// "still held by Feed.listener of a live Shop.Feed, by the global 'current' (libshop.so), and by a local of main",
    /// or "no other pointer to the block was found"; nil if no search for holders was made. Safe to print.
    package var holdersSentence: String? {
        guard let holders else { return nil }
        let limit = detail["search"].map { "; \(visible($0))" } ?? ""
        if holders.isEmpty { return "no other pointer to the block was found" + limit }
        var parts = holders.prefix(Self.mostHoldersNamed).map { "by \($0.text)" }
        if holders.count > parts.count { parts.append("by \(holders.count - parts.count) more") }
        let last = parts.removeLast()
        let list =
            switch parts.count {
            case 0: last
            case 1: "\(parts[0]) and \(last)"
            default: parts.joined(separator: ", ") + ", and " + last
            }
        return "still held " + list + limit
    }
}
