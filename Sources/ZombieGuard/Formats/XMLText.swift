// Escapes text for XML.

/// Escapes text for use between tags and in quoted attributes. Line feeds and tabs are kept. Characters that XML 1.0
/// cannot contain (section 2.2: other control characters, U+FFFE, U+FFFF), and those that a terminal might interpret,
/// are written as in Swift: "\u{1b}".
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

/// Returns the entity for a markup character of XML and HTML; nil for any other character.
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
