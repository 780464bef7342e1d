// Patterns of names: `*` for any text, `?` for one character, everything else for itself.

/// A pattern. Matching takes time in proportion to pattern times text at most, whatever they hold.
struct Glob: Hashable, Sendable {
    // Bytes of text, and beyond them the two wildcards.
    private static let anyCharacter: UInt16 = 0x100
    private static let anyText: UInt16 = 0x101

    private var elements: [UInt16] = []
    /// The text that is all that the pattern matches; nil where it has wildcards.
    private(set) var literal: String?

    /// What is wrong with a pattern.
    struct Malformed: Error { var reason: String }

    /// Parses a pattern. A backslash takes a character's meaning away; `\n`, `\t` and `\u{…}` are characters.
    init(_ pattern: Substring) throws(Malformed) {
        var text = ""
        var isLiteral = true
        var rest = pattern.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            switch scalar {
            case "*":
                // Several in a row are one: so the time stays in bounds.
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
        guard let scalar = rest.popFirst() else { throw Malformed(reason: "a backslash has nothing behind it") }
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

    /// How many bytes of a text the pattern names.
    var weight: Int { elements.count { $0 < Self.anyCharacter } }

    /// Whether the pattern matches the whole text.
    func matches(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { text in elements.withUnsafeBufferPointer { Self.match($0, text) } }
    }

    // Greedy, going back to the last star only: the stars before it have taken as little as they could.
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

    // Where the character that begins at `start` ends.
    private static func end(of start: Int, in text: UnsafeBufferPointer<UInt8>) -> Int {
        var end = start + 1
        while end < text.count, text[end] & 0xc0 == 0x80 { end += 1 }
        return end
    }

    // Whether a character may stand in a line as it is: seen, and not drawn into the one before it.
    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        if scalar == " " { return true }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .spacingMark, .enclosingMark: return false
        default: return !scalar.properties.isWhitespace && visible(String(scalar)) == String(scalar)
        }
    }

    /// The pattern that matches this text only, on one line and safe to print.
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
        // Blanks at the ends are not part of a pattern.
        let blank = "\\u{20}".unicodeScalars
        var scalars = pattern.unicodeScalars
        if scalars.first == " " { scalars.replaceSubrange(..<scalars.index(after: scalars.startIndex), with: blank) }
        if scalars.last == " " { scalars.replaceSubrange(scalars.index(before: scalars.endIndex)..., with: blank) }
        return String(scalars)
    }
}
