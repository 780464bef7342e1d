// Scans demangled names: matches brackets and finds text outside them.

/// A scanner over a demangled name, from its beginning.
struct NameScanner {
    private(set) var rest: Substring

    init(_ text: some StringProtocol) { rest = Substring(text) }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func skip(_ prefix: String) -> Bool {
        guard rest.hasPrefix(prefix) else { return false }
        rest = rest.dropFirst(prefix.count)
        return true
    }

    /// Consumes the text up to `end`, an index of `rest`.
    @discardableResult
    mutating func take(to end: Substring.Index) -> Substring {
        let taken = rest[..<end]
        rest = rest[end...]
        return taken
    }

    mutating func take(while condition: (Character) -> Bool) -> Substring {
        take(to: rest.firstIndex { !condition($0) } ?? rest.endIndex)
    }

    /// Consumes a bracketed part with its brackets; nil if `rest` does not begin with a bracket, or the bracket is not
    /// closed.
    mutating func takeBracket() -> Substring? {
        guard let first = rest.first, Self.closing[first] != nil else { return nil }
        for (index, depth) in Levels(rest) where depth == 0 {
            if index != rest.startIndex { return take(to: rest.index(after: index)) }
        }
        return nil
    }

    /// The first occurrence of `text` outside all brackets.
    func find(_ text: String) -> Substring.Index? {
        Levels(rest).first { index, depth in depth == 0 && rest[index...].hasPrefix(text) }?.index
    }

    private static let closing: [Character: Character] = ["(": ")", "[": "]", "<": ">"]

    /// Every index of a text with its bracket depth; brackets have the depth of the text around them.
    struct Levels: Sequence, IteratorProtocol {
        private let text: Substring
        private var index: Substring.Index
        private var depth = 0
        private var previous: Character = " "

        init(_ text: Substring) {
            self.text = text
            index = text.startIndex
        }

        mutating func next() -> (index: Substring.Index, depth: Int)? {
            guard index < text.endIndex else { return nil }
            let character = text[index]
            let here = index
            index = text.index(after: index)
            defer { previous = character }
            switch character {
            case "(", "[", "<":
                depth += 1
                return (here, depth - 1)
            case ")", "]":
                depth -= 1
            case ">" where previous != "-": // not the arrow of a function
                depth -= 1
            default: break
            }
            return (here, depth)
        }
    }
}

extension Substring {
    /// The parts between commas outside all brackets, without leading spaces; empty if the text is blank.
    func splitAtCommas() -> [Substring] {
        var parts: [Substring] = []
        var start = startIndex
        for (index, depth) in NameScanner.Levels(self) where depth == 0 && self[index] == "," {
            parts.append(self[start..<index])
            start = self.index(after: index)
        }
        parts.append(self[start...])
        let trimmed = parts.map { part in part.drop { $0 == " " } }
        return trimmed.count == 1 && trimmed[0].isEmpty ? [] : trimmed
    }
}
