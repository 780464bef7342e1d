// Strips those parts from function names that change between builds, for signatures and suppressions.

/// Returns a function name without compiler marks: clones (`.constprop.0`, `[clone .cold]`), template and generic
/// arguments (`Pool<int>` → `Pool<>`), private discriminators, and the numbers of closures and lambdas
/// (`closure #2 in f()` → `closure # in f()`). Other names are returned unchanged.
func withoutBuildMarks(_ function: String) -> String {
    // Fast path for most names: every mark begins with one of these characters.
    guard function.utf8.contains(where: { Stabilizer.marks.contains($0) }) else { return function }
    return Stabilizer.stable(function)
}

private enum Stabilizer {
    static let marks = Set("#.<[($'{:".utf8)

    // Stripping a mark can expose another mark. A name that does not reach a fixed point within this number of passes
    // is not a real function name and stays unchanged, which keeps the stripping idempotent.
    private static let turns = 4

    static func stable(_ name: String) -> String {
        var bytes = Array(name.utf8)
        for _ in 0..<turns {
            let next = rewritten(withoutWrappers(withoutClones(bytes)))
            if next == bytes { return String(decoding: bytes, as: UTF8.self) }
            bytes = next
        }
        return name
    }

    // MARK: At the ends

    private static let cloneWords: Set<[UInt8]> = Set(
        ["constprop", "isra", "part", "cold", "llvm", "lto_priv", "localalias", "specialized", "warm"]
            .map { Array($0.utf8) })

    /// `f.constprop.0.isra.1`, `f() [clone .cold]`, `f() (.cold)`, Rust's `f::h0123456789abcdef` → `f`.
    private static func withoutClones(_ name: [UInt8]) -> [UInt8] {
        var rest = name[...]
        while true {
            if let shorter = withoutBracket(rest, "[clone ", "]") ?? withoutBracket(rest, "(.", ")") {
                rest = shorter
            } else if let dot = rest.lastIndex(of: UInt8(ascii: ".")), dot > rest.startIndex,
                isClone(rest[(dot + 1)...])
            {
                rest = rest[..<dot]
            } else if rest.count > 19, rest.suffix(19).starts(with: "::h".utf8),
                rest.suffix(16).allSatisfy(isHexadecimal)
            {
                rest = rest.dropLast(19)
            } else {
                return Array(rest)
            }
        }
    }

    private static func isClone(_ word: ArraySlice<UInt8>) -> Bool {
        !word.isEmpty && word.allSatisfy(isDigit) || cloneWords.contains(Array(word))
    }

    private static func withoutBracket(_ text: ArraySlice<UInt8>, _ open: String, _ close: String) -> ArraySlice<UInt8>?
    {
        guard text.last == close.utf8.first, let space = text.dropLast().lastIndex(of: open.utf8.first!),
            text[space...].starts(with: open.utf8), space > text.startIndex + 1, text[space - 1] == UInt8(ascii: " ")
        else { return nil }
        return text[..<(space - 1)]
    }

    /// `merged f()`, `partial apply for f()` → `f()`: wrappers that the compiler makes to call or share a function.
    private static func withoutWrappers(_ name: [UInt8]) -> [UInt8] {
        for word in ["merged ", "partial apply for "] where name.starts(with: word.utf8) && name.count > word.utf8.count
        {
            return Array(name.dropFirst(word.utf8.count))
        }
        return name
    }

    // MARK: Inside

    private static func rewritten(_ name: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(name.count)
        let matchingBrackets = matchingBrackets(in: name)
        var index = 0
        while index < name.count {
            let byte = name[index]
            switch byte {
            case UInt8(ascii: "<") where !isOperator(result):
                result.append(byte)
                index = matchingBrackets[index] ?? index + 1
                continue
            case UInt8(ascii: "#"),
                UInt8(ascii: "$") where byte == UInt8(ascii: "#") || isLambda(name, at: index):
                result += byte == UInt8(ascii: "$") ? [byte, UInt8(ascii: "_")] : [byte]
                index += byte == UInt8(ascii: "$") ? 2 : 1
                while index < name.count, isDigit(name[index]) { index += 1 }
                continue
            case UInt8(ascii: "("):
                if let hidden = privateName(name, at: index) {
                    result += name[hidden.name]
                    index = hidden.end
                    continue
                }
            default: break
            }
            result.append(byte)
            index += 1
        }
        return result
    }

    /// Whether the text ends in `operator` or `operator<`: a following `<` is then part of the operator's name.
    private static func isOperator(_ text: [UInt8]) -> Bool {
        let rest = text.last == UInt8(ascii: "<") ? text.dropLast() : text[...]
        guard rest.suffix(8).elementsEqual("operator".utf8) else { return false }
        guard let before = rest.dropLast(8).last else { return true }
        return !isDigit(before) && !(0x61...0x7a).contains(before | 0x20) && before != UInt8(ascii: "_")
    }

    // Matches clang's `$_0` only, not other names with a dollar sign.
    private static func isLambda(_ name: [UInt8], at index: Int) -> Bool {
        index + 2 < name.count && name[index + 1] == UInt8(ascii: "_") && isDigit(name[index + 2])
    }

    /// Maps the index of each `<` to the index of its matching `>`.
    private static func matchingBrackets(in name: [UInt8]) -> [Int: Int] {
        var matchingBrackets: [Int: Int] = [:]
        var open: [Int] = []
        for (index, byte) in name.enumerated() {
            if byte == UInt8(ascii: "<") { open.append(index) }
            // The `>` of the arrow in a function type is not a bracket.
            if byte == UInt8(ascii: ">"), index == 0 || name[index - 1] != UInt8(ascii: "-"), let start = open.popLast()
            {
                matchingBrackets[start] = index
            }
        }
        return matchingBrackets
    }

    private static let longestPrivateName = 512

    /// `(hidden in _12AB)`
    private static func privateName(_ name: [UInt8], at start: Int) -> (name: Range<Int>, end: Int)? {
        guard let end = name[start...].prefix(longestPrivateName).firstIndex(of: UInt8(ascii: ")")),
            let underscore = name[start..<end].lastIndex(of: UInt8(ascii: "_")), underscore - start > 5,
            name[(underscore - 4)..<underscore].elementsEqual(" in ".utf8), end - underscore > 4,
            name[(underscore + 1)..<end].allSatisfy(isHexadecimal)
        else { return nil }
        return ((start + 1)..<(underscore - 4), end + 1)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        isDigit(byte) || (0x61...0x66).contains(byte) || (0x41...0x46).contains(byte)
    }
}
