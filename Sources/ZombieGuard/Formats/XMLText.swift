// Text inside of XML.

/// The text safe to stand between tags and in quoted attributes. Line feeds and tabs stay; what XML 1.0 cannot hold (section 2.2 of
/// the standard: other control characters, U+FFFE, U+FFFF), or what a terminal might obey, is written as in Swift: "\u{1b}".
func xmlText(_ text: some StringProtocol) -> String {
    var escaped = ""
    for character in text.unicodeScalars {
        if let entity = markupEntity(character) {
            escaped += entity
            continue
        }
        switch character {
        case "\n", "\t", " "..."~": escaped.unicodeScalars.append(character)
        default: escaped += visible(String(character))
        }
    }
    return escaped
}

/// What stands in XML and in HTML for a character that is part of their markup; nil for any other.
func markupEntity(_ character: Unicode.Scalar) -> String? {
    switch character {
    case "&": "&amp;"
    case "<": "&lt;"
    case ">": "&gt;"
    case "\"": "&quot;"
    case "'": "&#39;"
    default: nil
    }
}
