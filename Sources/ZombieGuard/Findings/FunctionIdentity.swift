// Reduces a function's name to what is the same in every build, for signatures of version 2.

/// The name of a function without anything that compilers write in different ways: parameters, template and generic
/// arguments, qualifiers, anonymous namespaces, numbers of closures and lambdas, and marks of clones. The labels of a
/// Swift function stay: they are its name.
///
/// `geo::Circle::area(int) const` and `geo::Circle::area` → `geo::Circle::area`;
/// `f(int)::{lambda(int)#2}::operator()(int)` and `f(int)::$_1::operator()(int) const` → `f::{lambda}`;
/// `<shop::Cart as Drop>::drop` → `shop::Cart::drop`.
func functionIdentity(_ function: String) -> String {
    // Do not parse longer names: nobody reads them, and they may be hostile.
    guard function.utf8.count <= FunctionIdentity.longest else { return withoutBuildMarks(function) }
    let bytes = Array(withoutBuildMarks(FunctionIdentity.withoutImplementation(function)).utf8)
    guard bytes.contains(where: { FunctionIdentity.marks.contains($0) }) else {
        return String(decoding: bytes, as: UTF8.self)
    }
    return String(decoding: FunctionIdentity.reduced(bytes), as: UTF8.self)
}

private enum FunctionIdentity {
    static let longest = 1 << 14
    static let marks = Set("(<[:".utf8)

    /// Rust's `<T as Trait>::f` → `T::f`, `<T>::f` → `T::f`.
    static func withoutImplementation(_ name: String) -> String {
        guard name.hasPrefix("<") else { return name }
        var depth = 0
        var end: String.Index?
        var before: Character?
        for index in name.indices {
            if name[index] == "<" { depth += 1 }
            if name[index] == ">", before != "-" { depth -= 1 }
            if depth == 0 {
                end = index
                break
            }
            before = name[index]
        }
        guard let end, case let rest = name[name.index(after: end)...], rest.hasPrefix("::") else { return name }
        let inside = name[name.index(after: name.startIndex)..<end]
        return String(inside[..<(inside.firstRange(of: " as ")?.lowerBound ?? inside.endIndex)] + rest)
    }

    /// Splits at `::`, and reduces each component.
    static func reduced(_ name: [UInt8]) -> [UInt8] {
        var components: [[UInt8]] = []
        var depth = 0
        var start = 0
        var index = 0
        func take(_ end: Int) {
            let one = component(name[start..<end])
            if let one, !(isLambda(components.last) && isCall(one)) { components.append(one) }
        }
        while index < name.count {
            switch name[index] {
            case UInt8(ascii: "("), UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: ")"), UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ":") where depth == 0 && index + 1 < name.count && name[index + 1] == UInt8(ascii: ":"):
                take(index)
                index += 1
                start = index + 1
            default: break
            }
            index += 1
        }
        take(name.count)
        return Array(components.joined(separator: "::".utf8))
    }

    private static let lambda = Array("{lambda}".utf8)

    private static func isLambda(_ component: [UInt8]?) -> Bool { component == lambda }
    private static func isCall(_ component: [UInt8]) -> Bool { component == Array("operator()".utf8) }

    /// A component of a qualified name; nil for an anonymous namespace.
    private static func component(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        for start in ["{lambda(", "'lambda", "$_", "<lambda("] where text.starts(with: start.utf8) { return lambda }
        if text.elementsEqual("(anonymous namespace)".utf8) || text.elementsEqual("{anonymous}".utf8) { return nil }
        var rest = withoutQualifiers(text)
        rest = withoutParameters(rest)
        return withoutArguments(rest)
    }

    private static let qualifiers = [" const", " volatile", " &", " &&", " noexcept"].map { Array($0.utf8) }

    private static func withoutQualifiers(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var rest = text
        while let end = qualifiers.first(where: { rest.count > $0.count && rest.suffix($0.count).elementsEqual($0) }),
            rest.contains(UInt8(ascii: ")")), !isOperatorName(rest)
        {
            rest = rest.dropLast(end.count)
        }
        return rest
    }

    /// Whether the text is `operator&` or `operator&&`, whose end is not a qualifier.
    private static func isOperatorName(_ text: ArraySlice<UInt8>) -> Bool {
        text.starts(with: "operator".utf8) && !text.contains(UInt8(ascii: ")"))
    }

    /// `area(int)` → `area`; `add(_:)`, `operator()` and Go's `main.(*Cart).Add` stay.
    private static func withoutParameters(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard text.last == UInt8(ascii: ")"), let open = opening(of: text) else { return text }
        let before = text[..<open]
        let isLabelled = text.dropLast().last == UInt8(ascii: ":")
        if isLabelled || before.isEmpty || before.last == UInt8(ascii: ".") || before.elementsEqual("operator".utf8) {
            return text
        }
        return before
    }

    /// Index of the bracket that the last byte closes.
    private static func opening(of text: ArraySlice<UInt8>) -> Int? {
        var depth = 0
        for index in text.indices.reversed() {
            if text[index] == UInt8(ascii: ")") { depth += 1 }
            if text[index] == UInt8(ascii: "(") { depth -= 1 }
            if depth == 0 { return index }
        }
        return nil
    }

    /// `make<>` → `make`, `f[abi:cxx11]` → `f`. The arguments themselves are gone already.
    private static func withoutArguments(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var rest = Array(text)
        for mark in ["<>", "[abi:cxx11]"].map({ Array($0.utf8) }) where rest.count > mark.count {
            guard !rest.starts(with: "operator".utf8) || rest.count > "operator<>".utf8.count else { continue }
            rest = rest.removing(mark)
        }
        return rest
    }
}

extension [UInt8] {
    /// The bytes without all occurrences of a mark, also those that only appear when another is removed.
    fileprivate func removing(_ mark: [UInt8]) -> [UInt8] {
        var rest: [UInt8] = []
        rest.reserveCapacity(count)
        for byte in self {
            rest.append(byte)
            if byte == mark.last, rest.count >= mark.count, rest[(rest.count - mark.count)...].elementsEqual(mark) {
                rest.removeLast(mark.count)
            }
        }
        return rest
    }
}
