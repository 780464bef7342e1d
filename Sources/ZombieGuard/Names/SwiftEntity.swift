// Parses one function, initializer, accessor or variable of a demangled Swift name.

/// The parts of `static (extension in M):Module.Type.name<A>(label: Type) async -> Result in context`.
struct SwiftEntity {
    static let accessors: Set<Substring> = [
        "getter", "setter", "modify", "modify2", "read", "read2", "didset", "willset", "unsafeMutableAddressor",
        "unsafeAddressor", "mutate", "borrow",
    ]

    private var isStatic = false
    private var module: Substring?
    /// Enclosing types, outermost first.
    private var path: [Substring] = []
    /// Base name, without argument labels.
    private var name: Substring = ""
    /// Argument labels, such as `(_:to:)`; empty for variables.
    private var arguments = ""
    private var accessor: Substring?
    /// If the entity or its enclosing type is local to a function: readable name of that function.
    private var context: String?
    /// Unparsed text of the enclosing function or type; nil if the entity is not local.
    private var outer: Substring?
    private var isLocalType = false

    /// nil if the text is not an entity.
    ///
    /// - Parameter depth: nesting depth of the name within other names.
    init?(_ text: Substring, depth: Int) {
        self.init(withoutContext: text)
        if let outer { mergeContext(outer, depth) }
    }

    // Parses everything but the context. Whether the entity is a local type does not depend on the context.
    private init?(withoutContext text: Substring) {
        var scanner = NameScanner(text)
        isStatic = scanner.skip("static ")
        if scanner.skip("(extension in ") {
            module = scanner.take { $0 != ")" }
            guard scanner.skip("):") else { return nil }
        }
        var isLocal = false
        repeat {
            guard let component = Self.takeComponent(&scanner) else { return nil }
            path.append(component)
            while scanner.rest.hasPrefix("<") {
                if scanner.takeBracket() == nil { return nil }
            }
            isLocal = Self.skipLocalNumber(&scanner) || isLocal
        } while scanner.skip(".")
        name = path.removeLast()

        var isFunction = false
        if let bracket = scanner.takeBracket() {
            isFunction = true
            arguments = Self.labels(bracket)
        } else if scanner.rest.hasPrefix(" : ") {
            if Self.accessors.contains(name), let property = path.popLast() {
                accessor = name
                name = property
            }
            _ = scanner.skip(" : ")
            if name == "subscript" {
                while scanner.rest.hasPrefix("<"), scanner.takeBracket() != nil {}
                guard let bracket = scanner.takeBracket() else { return nil }
                arguments = Self.labels(bracket)
            }
        } else if !scanner.isAtEnd, !scanner.rest.hasPrefix(" in ") {
            return nil
        }

        let isInitializer = name == "init" || name == "__allocating_init"
        if isInitializer, path.isEmpty, scanner.skip(" -> ") {
            outer = Self.half(scanner.rest)
        } else if let place = scanner.find(" in ") {
            scanner.take(to: place)
            _ = scanner.skip(" in ")
            outer = isInitializer ? Self.half(scanner.rest) : scanner.rest
        } else if isLocal {
            return nil
        } else if !path.isEmpty {
            let first = path.removeFirst()
            if module == nil { module = first }
        }
        isLocalType = isLocal && !isFunction && accessor == nil
    }

    // Skips the number of a local entity, such as "#1", with its generic arguments. False if the entity has none.
    private static func skipLocalNumber(_ scanner: inout NameScanner) -> Bool {
        guard scanner.skip(" #") else { return false }
        _ = scanner.take { $0.isNumber }
        if scanner.rest.hasPrefix(" <") {
            _ = scanner.skip(" ")
            _ = scanner.takeBracket()
        }
        _ = scanner.rest.hasPrefix(" (") && scanner.skip(" ")
        return true
    }

    // Removes the duplicate of "X in X": an initializer of a local type names the type as its result and as its
    // context.
    private static func half(_ text: Substring) -> Substring {
        var optional = NameScanner(text)
        if optional.skip("Swift.Optional"), let bracket = optional.takeBracket() {
            return bracket.dropFirst().dropLast()
        }
        let count = (text.count - " in ".count) / 2
        let half = text.prefix(max(count, 0))
        return text == half + " in " + half ? half : text
    }

    private mutating func mergeContext(_ text: Substring, _ depth: Int) {
        guard depth < SwiftName.deepest, var outer = SwiftEntity(withoutContext: text), outer.isLocalType else {
            context = SwiftName.parse(text, depth: depth + 1).readable
            return
        }
        if let further = outer.outer { outer.mergeContext(further, depth + 1) }
        // For a member of a local type, the type is the owner, and the context of the type becomes the context.
        path = outer.path + [outer.name] + path
        context = outer.context
    }

    // Consumes one component of a path: "add", "(hidden in _12AB)", "`weird name`", "+ infix".
    private static func takeComponent(_ scanner: inout NameScanner) -> Substring? {
        guard let first = scanner.rest.first else { return nil }
        if first == "(" {
            guard let bracket = scanner.takeBracket(), let end = bracket.range(of: " in _") else { return nil }
            return bracket[bracket.index(after: bracket.startIndex)..<end.lowerBound]
        }
        if first == "`", let end = scanner.rest.dropFirst().firstIndex(of: "`") {
            return scanner.take(to: scanner.rest.index(after: end))
        }
        if isIdentifier(first) { return scanner.take(while: isIdentifier) }
        for fixity in [" infix", " prefix", " postfix"] {
            if let end = scanner.rest.firstIndex(of: " "), scanner.rest[end...].hasPrefix(fixity) {
                let name = scanner.take(to: end)
                _ = scanner.skip(fixity)
                return name
            }
        }
        return nil
    }

    static func isIdentifier(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || character == "_" || character == "$"
            || character.unicodeScalars.contains { $0.value > 0x7f && $0.properties.isXIDContinue }
    }

    /// Argument labels of a parameter list: `(_: Swift.Int, to: Shop.Cart)` → `(_:to:)`.
    private static func labels(_ bracket: Substring) -> String {
        let labels = bracket.dropFirst().dropLast().splitAtCommas().map { argument -> String in
            let label = argument.prefix { isIdentifier($0) || $0 == "`" }
            return label.isEmpty || !argument[label.endIndex...].hasPrefix(": ") ? "_:" : label + ":"
        }
        return "(\(labels.joined()))"
    }

    // MARK: Results

    /// `Outer.Inner`; nil if the entity is not a member of a type.
    var owner: String? { path.isEmpty ? nil : path.joined(separator: ".") }

    var member: String {
        switch name {
        case "__allocating_init": "init" + arguments
        case "__deallocating_deinit", "__isolated_deallocating_deinit": "deinit"
        default: name + arguments
        }
    }

    var role: SymbolName.Role {
        switch accessor {
        case "getter"?, "read"?, "read2"?, "borrow"?: .getter
        case "setter"?: .setter
        case "modify"?, "modify2"?, "mutate"?: .modify
        case _?: .helper
        case nil: arguments.isEmpty && !name.hasSuffix("deinit") ? .data : .function
        }
    }

    var readable: String {
        var text = isStatic ? "static " : ""
        if let module, SwiftName.libraryModules.contains(module), context == nil { text += module + "." }
        text += (path + [name == "$defer" ? "defer" : name + arguments]).joined(separator: ".")
        if let accessor { text += "." + accessor }
        if let context { text += " in " + context }
        return text
    }
}
