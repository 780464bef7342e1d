// Parses demangled Swift names: first the wrappers around an entity (thunks, closures, specializations), then the
// entity.

package enum SwiftName {
    /// Modules of the toolchain. Stack traces keep these module names, to distinguish the toolchain's code from the
    /// program's.
    package static let libraryModules: Set<Substring> = [
        "Swift", "_Concurrency", "_StringProcessing", "_RegexParser", "Synchronization", "Observation", "Distributed",
        "Foundation", "FoundationEssentials", "FoundationInternationalization", "FoundationNetworking", "FoundationXML",
        "Dispatch", "XCTest", "Testing", "_TestDiscovery", "_Testing_Foundation", "_TestingInternals", "__C",
    ]

    static func parse(_ demangled: String) -> SymbolName {
        var text = Substring(demangled)
        if let end = text.range(of: " with unmangled suffix ") { text = text[..<end.lowerBound] }
        return parse(text, depth: 0)
    }

    /// Deepest nesting that is parsed. Each level scans the rest of the name, so the time is quadratic in the depth.
    static let deepest = 64

    /// Parses a name. Names nested too deeply are kept as text.
    static func parse(_ text: Substring, depth: Int) -> SymbolName {
        let next = depth + 1
        if next > deepest { return SymbolName(language: .swift, readable: String(text), role: .helper) }
        for wrapper in transparent {
            if let inside = wrapper(text) { return parse(inside, depth: next) }
        }
        if text.hasPrefix("merged ") {
            // The linker merged several similar functions into one body, so the member is unknown.
            var name = parse(text.dropFirst("merged ".count), depth: next)
            name.readable = "merged " + name.readable
            name.role = .helper
            return name
        }
        if text.hasPrefix("vtable thunk for "), let middle = text.range(of: " dispatching to ") {
            return parse(text[middle.upperBound...], depth: next)
        }
        if text.hasPrefix("protocol witness for ") {
            return witness(text.dropFirst("protocol witness for ".count), next)
        }
        return closure(text, next) ?? accessor(text, next) ?? entity(text, next) ?? helper(text, next)
    }

    // MARK: Wrappers

    /// Prefixes that are dropped because they do not help a reader of a stack trace.
    private static let transparent: [@Sendable (Substring) -> Substring?] = [
        { text in
            let simple = [
                "async function pointer to ", "dispatch thunk of ", "@objc ", "@nonobjc ", "dynamic ", "override ",
                "distributed thunk ", "back deployment thunk for ", "back deployment fallback for ",
            ]
            return simple.first { text.hasPrefix($0) }.map { text.dropFirst($0.count) }
        },
        { text in // "(1) await resume partial function for "
            guard text.hasPrefix("("), let end = text.range(of: " resume partial function for ") else { return nil }
            let number = text[..<end.lowerBound]
            return number.hasSuffix(") await") || number.hasSuffix(") suspend") ? text[end.upperBound...] : nil
        },
        { text in // "generic specialization <Swift.Int> of ", "function signature specialization <Arg[0] = Dead> of "
            guard let end = text.range(of: "specialization <"), !text[..<end.lowerBound].contains(".") else {
                return nil
            }
            var scanner = NameScanner(text[text.index(before: end.upperBound)...])
            if scanner.takeBracket() != nil, scanner.skip(" of ") { return scanner.rest }
            // The demangler omits a bracket in "<Arg[0] = [Closure Propagated : …, Argument Types : […]> of".
            guard let end = text.range(of: "]> of ") else { return nil }
            return text[end.upperBound...]
        },
    ]

    private static func witness(_ text: Substring, _ depth: Int) -> SymbolName {
        guard let middle = text.range(of: " in conformance ") else { return helper(text, depth) }
        var name = parse(text[..<middle.lowerBound], depth: depth)
        var conformance = NameScanner(text[middle.upperBound...])
        if conformance.rest.hasPrefix("<") { _ = conformance.takeBracket() } // " < where A: P> Type"
        let type = conformance.find(" : ").map { conformance.rest[..<$0] } ?? conformance.rest
        let path = SwiftTypeText.path(of: type.drop { $0 == " " })
        name.readable = "protocol witness for \(name.readable) in conformance \(path.joined(separator: "."))"
        name.owner = path.joined(separator: ".")
        return name
    }

    private static func closure(_ text: Substring, _ depth: Int) -> SymbolName? {
        var scanner = NameScanner(text)
        let word = scanner.skip("implicit closure #") ? "implicit closure" : "closure"
        guard word == "implicit closure" || scanner.skip("closure #") else { return nil }
        let number = scanner.take { $0.isNumber }
        guard let end = scanner.find(" in ") else { return nil }
        scanner.take(to: end)
        guard !number.isEmpty, scanner.skip(" in ") else { return nil }
        let context = parse(scanner.rest, depth: depth)
        // The context of top-level code in the main file is the module alone.
        let isTopLevel = scanner.rest.allSatisfy(SwiftEntity.isIdentifier)
        let place = isTopLevel ? "at top level" : "in \(context.readable)"
        var name = SymbolName(language: .swift, readable: "\(word) #\(number) \(place)", role: .helper)
        name.owner = context.owner
        return name
    }

    // Accessors of local variables: "getter of x #1 : Swift.Int in …".
    private static func accessor(_ text: Substring, _ depth: Int) -> SymbolName? {
        guard let middle = text.range(of: " of "), SwiftEntity.accessors.contains(text[..<middle.lowerBound]),
            let entity = SwiftEntity(text[middle.upperBound...], depth: depth)
        else { return nil }
        return SymbolName(language: .swift, readable: "\(text[..<middle.upperBound])\(entity.readable)", role: .helper)
    }

    private static func entity(_ text: Substring, _ depth: Int) -> SymbolName? {
        guard let entity = SwiftEntity(text, depth: depth) else { return nil }
        var name = SymbolName(language: .swift, readable: entity.readable, role: entity.role)
        name.owner = entity.owner
        name.member = entity.owner == nil ? nil : entity.member
        return name
    }

    /// Compiler-generated code: words, then "for", "of" or "from", then an entity or a type.
    private static func helper(_ text: Substring, _ depth: Int) -> SymbolName {
        var name = SymbolName(language: .swift, readable: "", role: .helper)
        let thunk = ["reabstraction thunk helper", "reabstraction thunk", "thunk helper"].first { text.hasPrefix($0) }
        if thunk != nil {
            name.readable = "reabstraction thunk"
            return name
        }
        for separator in [" forwarder for ", " initializer of ", " accessor of ", " expression of ", " argument "] {
            guard let middle = text.range(of: separator),
                !text[..<middle.lowerBound].contains(where: { "(<.".contains($0) })
            else { continue }
            var rest = text[middle.upperBound...]
            var words = text[..<middle.upperBound]
            if separator == " argument ", let of = rest.range(of: " of ") {
                words = text[..<of.upperBound]
                rest = rest[of.upperBound...]
            }
            let inner = parse(rest, depth: depth)
            name.readable =
                words == "partial apply forwarder for " ? "partial apply for \(inner.readable)" : words + inner.readable
            name.owner = inner.owner
            return name
        }
        name.readable = SwiftTypeText.short(text)
        return name
    }
}

extension Substring {
    /// The last occurrence of a text.
    func lastRange(of text: String) -> Range<Index>? {
        var last: Range<Index>?
        var rest = self
        while let next = rest.range(of: text) {
            last = next
            rest = rest[next.upperBound...]
        }
        return last
    }

    /// The first occurrence of a text.
    package func range(of text: String) -> Range<Index>? {
        guard let first = text.first else { return nil }
        var from = startIndex
        while let index = self[from...].firstIndex(of: first) {
            if self[index...].hasPrefix(text) { return index..<self.index(index, offsetBy: text.count) }
            from = self.index(after: index)
        }
        return nil
    }
}
