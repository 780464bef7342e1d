// Matches names against patterns: `*` matches any text, `?` one character, everything else itself.

/// A pattern. Matching takes at most time proportional to pattern length times text length, for any input.
struct Glob: Hashable, Sendable {
    // Elements below 0x100 are bytes of text. These two elements are the wildcards.
    private static let anyCharacter: UInt16 = 0x100
    private static let anyText: UInt16 = 0x101

    private var elements: [UInt16] = []
    /// The only text that the pattern matches; nil if it has wildcards.
    private(set) var literal: String?

    /// A syntax error in a pattern.
    struct Malformed: Error { var reason: String }

    /// Parses a pattern. A backslash escapes a character; `\n`, `\t` and `\u{…}` denote characters.
    init(_ pattern: Substring) throws(Malformed) {
        var text = ""
        var isLiteral = true
        var rest = pattern.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            switch scalar {
            case "*":
                // Consecutive stars are merged, which keeps the matching time bounded.
                if elements.last != Self.anyText { elements.append(Self.anyText) }
                isLiteral = false
            case "?":
                elements.append(Self.anyCharacter)
                isLiteral = false
            case "\\":
                let meant = try Self.escaped(&rest)
                elements += String(meant).utf8.map(UInt16.init)
                text.unicodeScalars.append(meant)
            default:
                elements += String(scalar).utf8.map(UInt16.init)
                text.unicodeScalars.append(scalar)
            }
        }
        literal = isLiteral ? text : nil
    }

    private static func escaped(_ rest: inout Substring.UnicodeScalarView) throws(Malformed) -> Unicode.Scalar {
        guard let scalar = rest.popFirst() else {
            throw Malformed(reason: "a backslash at the end of a pattern escapes nothing")
        }
        switch scalar {
        case "n": return "\n"
        case "t": return "\t"
        case "u":
            guard rest.first == "{", let end = rest.firstIndex(of: "}"),
                let value = UInt32(digits: Substring(rest[..<end].dropFirst()), radix: 16),
                let meant = Unicode.Scalar(value)
            else { throw Malformed(reason: "'\\u' needs the number of a character, as in '\\u{1b}'") }
            rest = rest[rest.index(after: end)...]
            return meant
        default: return scalar
        }
    }

    /// Number of literal bytes in the pattern.
    var weight: Int { elements.count { $0 < Self.anyCharacter } }

    /// Whether the pattern matches the whole text.
    func matches(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { text in elements.withUnsafeBufferPointer { Self.match($0, text) } }
    }

    // Backtracking to the last star suffices: earlier stars have already matched the shortest possible text.
    private static func match(_ pattern: UnsafeBufferPointer<UInt16>, _ text: UnsafeBufferPointer<UInt8>) -> Bool {
        var at = 0
        var element = 0
        var star: (element: Int, at: Int)?
        while true {
            let wanted = element < pattern.count ? pattern[element] : nil
            if wanted == anyText {
                element += 1
                if element == pattern.count { return true }
                star = (element, at)
            } else if at < text.count, wanted == UInt16(text[at]) {
                at += 1
                element += 1
            } else if at < text.count, wanted == anyCharacter {
                at = end(of: at, in: text)
                element += 1
            } else if wanted == nil, at == text.count {
                return true
            } else if let last = star, last.at < text.count {
                at = end(of: last.at, in: text)
                element = last.element
                star = (element, at)
            } else {
                return false
            }
        }
    }

    // Index behind the UTF-8 character that begins at `start`.
    private static func end(of start: Int, in text: UnsafeBufferPointer<UInt8>) -> Int {
        var end = start + 1
        while end < text.count, text[end] & 0xc0 == 0x80 { end += 1 }
        return end
    }

    // Whether a character can be written unescaped: it is visible and does not combine with the preceding one.
    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        if scalar == " " { return true }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .spacingMark, .enclosingMark: return false
        default: return !scalar.properties.isWhitespace && visible(String(scalar)) == String(scalar)
        }
    }

    /// Returns a pattern that matches only this text, on one line and safe to print.
    static func escape(_ text: String) -> String {
        var pattern = ""
        for scalar in text.unicodeScalars {
            if "*?\\|".unicodeScalars.contains(scalar) {
                pattern += "\\"
                pattern.unicodeScalars.append(scalar)
            } else if !isPlain(scalar) {
                pattern += "\\u{" + String(scalar.value, radix: 16) + "}"
            } else {
                pattern.unicodeScalars.append(scalar)
            }
        }
        // The parser strips leading and trailing blanks of a pattern, so escape them.
        let blank = "\\u{20}".unicodeScalars
        var scalars = pattern.unicodeScalars
        if scalars.first == " " { scalars.replaceSubrange(..<scalars.index(after: scalars.startIndex), with: blank) }
        if scalars.last == " " { scalars.replaceSubrange(scalars.index(before: scalars.endIndex)..., with: blank) }
        return String(scalars)
    }
}
