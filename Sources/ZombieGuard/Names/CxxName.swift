// Splits demangled C++ names into class, member and parameters.

package enum CxxName {
    private static let thunks = ["non-virtual thunk to ", "virtual thunk to ", "covariant return thunk to "]
    private static let data = [
        "vtable for ", "typeinfo name for ", "typeinfo for ", "VTT for ", "guard variable for ",
        "construction vtable for ",
        "reference temporary",
    ]

    static func parse(_ demangled: String) -> SymbolName {
        var text = Substring(simplified(demangled))
        if data.contains(where: { text.hasPrefix($0) }) {
            return SymbolName(language: .cxx, readable: String(text), role: .data)
        }
        if let thunk = thunks.first(where: { text.hasPrefix($0) }) { text = text.dropFirst(thunk.count) }
        var name = SymbolName(language: .cxx, readable: String(text))
        guard let parameters = parameters(in: text) else {
            name.role = .data
            return name
        }
        let declaration = text[..<parameters]
        let path = declaration[start(of: declaration)...]
        name.readable = String(text[path.startIndex...])
        if let separator = lastSeparator(in: path) {
            name.owner = String(path[..<separator])
            name.member = String(text[path.index(separator, offsetBy: 2)...])
        }
        // Functions of the Swift runtime have long template arguments, which do not help a reader.
        if path.hasPrefix("swift::") { name.readable = withoutTemplateArguments(path) }
        return name
    }

    private static func withoutTemplateArguments(_ path: Substring) -> String {
        var text = ""
        var isOpen = false
        var scanner = NameScanner(path)
        while let first = scanner.rest.first {
            if first == "<", !isOpen {
                if scanner.takeBracket() != nil { continue }
                // An unbalanced bracket: do not search for the end of later brackets, either.
                isOpen = true
            }
            text.append(first)
            _ = scanner.skip(String(first))
        }
        return text
    }

    /// The class of a typeinfo or vtable symbol, such as `typeinfo name for geo::Circle`.
    package static func className(typeinfo symbol: String) -> String? {
        let text = demangle(symbol)
        for prefix in ["typeinfo name for ", "typeinfo for ", "vtable for "] where text.hasPrefix(prefix) {
            return simplified(String(text.dropFirst(prefix.count)))
        }
        return nil
    }

    private static let longestTag = 128

    // Removes ABI tags and inline namespaces, and shortens the expansion of std::string.
    private static func simplified(_ text: String) -> String {
        var result = ""
        var rest = Substring(text)
        let strings = [
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>",
        ]
        while let first = rest.first {
            if first == "[", rest.hasPrefix("[abi:"), let end = rest.prefix(longestTag).firstIndex(of: "]") {
                rest = rest[rest.index(after: end)...]
            } else if first == "s", let string = strings.first(where: { rest.hasPrefix($0) }) {
                result += "std::string"
                rest = rest.dropFirst(string.count)
            } else if first == "s", rest.hasPrefix("std::__cxx11::") {
                result += "std::"
                rest = rest.dropFirst("std::__cxx11::".count)
            } else {
                result.append(first)
                rest = rest.dropFirst()
            }
        }
        return result
    }

    /// Start of the parameter list: the first bracket that belongs neither to a name nor to the parameters of an
    /// enclosing function, such as the function around a lambda.
    private static func parameters(in text: Substring) -> Substring.Index? {
        var found: Substring.Index?
        var skipTo = text.startIndex
        let lambda = text.lastRange(of: "::{lambda")?.lowerBound
        for (index, depth) in Levels(text) where depth == 0 && text[index] == "(" && index >= skipTo {
            if text[index...].hasPrefix("(anonymous namespace)") || text[..<index].hasSuffix("decltype") { continue }
            if text[..<index].hasSuffix("operator"), text[index...].hasPrefix("()") {
                skipTo = text.index(index, offsetBy: 2)
                continue
            }
            // A bracket followed by "::" is the parameter list of an enclosing function.
            var scanner = NameScanner(text[index...])
            _ = scanner.takeBracket()
            if scanner.rest.hasPrefix("::") || isQualifier(scanner.rest) { continue }
            if found == nil || lambda.map({ found! <= $0 }) == true { found = index }
        }
        return found
    }

    private static func operatorWord(in text: Substring) -> Range<Substring.Index>? {
        let isPart = { (character: Character) in character.isLetter || character.isNumber || character == "_" }
        var rest = text
        while let word = rest.range(of: "operator") {
            let isWhole =
                !(rest[..<word.lowerBound].last.map(isPart) ?? false)
                && !(rest[word.upperBound...].first.map(isPart) ?? false)
            if isWhole { return word }
            rest = rest[word.upperBound...]
        }
        return nil
    }

    /// Start of the name, behind the return type, which demangled templates include.
    private static func start(of declaration: Substring) -> Substring.Index {
        let end = operatorWord(in: declaration)?.lowerBound ?? declaration.endIndex
        var start = declaration.startIndex
        for (index, depth) in Levels(declaration) where depth == 0 && declaration[index] == " " && index < end {
            if isQualifier(declaration[index...]) { continue }
            start = declaration.index(after: index)
        }
        return start
    }

    /// Whether a text begins with the qualifiers of an enclosing function: "f() const::{lambda()#1}::operator()()".
    private static func isQualifier(_ text: Substring) -> Bool { qualifiers.contains { text.hasPrefix($0) } }

    private static let qualifiers = [" const::", " volatile::", " const &::", " const &&::", " &::", " &&::"]

    private static func lastSeparator(in path: Substring) -> Substring.Index? {
        let end = operatorWord(in: path)?.lowerBound ?? path.endIndex
        var found: Substring.Index?
        for (index, depth) in Levels(path) where depth == 0 && index < end && path[index...].hasPrefix("::") {
            found = index
        }
        return found
    }

    /// Bracket depths, not counting the `<` or `>` in the name of an operator.
    private struct Levels: Sequence, IteratorProtocol {
        private var levels: NameScanner.Levels
        private let text: Substring
        private let operatorName: Range<Substring.Index>?

        init(_ text: Substring) {
            self.text = text
            operatorName = operatorWord(in: text).flatMap { word in
                let symbol = text[word.upperBound...].prefix { "<>=-".contains($0) }
                return symbol.isEmpty ? nil : symbol.startIndex..<symbol.endIndex
            }
            levels = NameScanner.Levels(operatorName.map { text[..<$0.lowerBound] } ?? text)
        }

        mutating func next() -> (index: Substring.Index, depth: Int)? {
            if let step = levels.next() { return step }
            guard let operatorName, text.endIndex > operatorName.upperBound, !isBehindOperator else { return nil }
            isBehindOperator = true
            levels = NameScanner.Levels(text[operatorName.upperBound...])
            return levels.next()
        }

        private var isBehindOperator = false
    }
}
