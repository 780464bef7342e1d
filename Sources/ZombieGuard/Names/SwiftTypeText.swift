// Shortens the types in demangled Swift names.

package enum SwiftTypeText {
    /// Removes modules and private discriminators from the types in a text:
    /// `outlined destroy of [Shop.(Item in _12AB)]` → `outlined destroy of [Item]`.
    static func short(_ text: Substring) -> String {
        var result = ""
        var scanner = NameScanner(text)
        while let first = scanner.rest.first {
            if SwiftEntity.isIdentifier(first) {
                result += takePath(&scanner).joined(separator: ".")
            } else if scanner.skip("(extension in ") {
                _ = scanner.take { $0 != ":" }
                _ = scanner.skip(":")
            } else {
                result.append(first)
                _ = scanner.skip(String(first))
            }
        }
        return result
    }

    /// The components of a type's name, without module and generic arguments: `Shop.Outer<A>.Inner` → Outer, Inner.
    static func path(of type: Substring) -> [String] {
        var scanner = NameScanner(type)
        if scanner.skip("(extension in ") {
            _ = scanner.take { $0 != ":" }
            _ = scanner.skip(":")
        }
        var path = takePath(&scanner)
        while true {
            while scanner.rest.hasPrefix("<"), scanner.takeBracket() != nil {}
            guard scanner.skip(".") else { return path }
            path += takePath(&scanner, hasModule: false)
        }
    }

    private static func takePath(_ scanner: inout NameScanner, hasModule: Bool = true) -> [String] {
        var path: [String] = []
        repeat {
            if let name = takePrivate(&scanner) {
                path.append(name)
            } else {
                path.append(String(scanner.take(while: SwiftEntity.isIdentifier)))
            }
        } while scanner.rest.hasPrefix(".") && beginsName(scanner.rest.dropFirst()) && scanner.skip(".")
        // Keep the first component if it is a generic parameter, not a module: "A.Element".
        let isParameter = path[0].count <= 2 && path[0].first?.isUppercase == true
        if hasModule, path.count > 1, !isParameter { path.removeFirst() }
        return path
    }

    private static let longestPrivateName = 512

    private static func beginsName(_ text: Substring) -> Bool {
        text.first.map { SwiftEntity.isIdentifier($0) } == true
            || text.hasPrefix("(") && text.prefix(longestPrivateName).range(of: " in _") != nil
    }

    // Consumes a private name, such as "(Item in _12AB)", and returns it without its discriminator.
    private static func takePrivate(_ scanner: inout NameScanner) -> String? {
        guard scanner.rest.first == "(" else { return nil }
        // Search a bounded prefix only: brackets may be nested or unclosed, and scanning to the end each time would be
        // slow.
        var beginning = NameScanner(scanner.rest.prefix(longestPrivateName))
        guard let bracket = beginning.takeBracket(), let end = bracket.range(of: " in _") else { return nil }
        scanner.take(to: bracket.endIndex)
        return String(bracket[bracket.index(after: bracket.startIndex)..<end.lowerBound])
    }
}
