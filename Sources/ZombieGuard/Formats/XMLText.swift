// Text inside of XML.

/// The text safe to stand between tags and in quoted attributes. Line feeds and tabs stay; what XML 1.0 cannot hold (section 2.2 of
/// the standard: other control characters, U+FFFE, U+FFFF), or what a terminal might obey, is written as in Swift: "\u{1b}".
func xmlText(_ text: some StringProtocol) -> String {
    var escaped = ""
    for character in text.unicodeScalars {
        switch character {
        case "&": escaped += "&amp;"
        case "<": escaped += "&lt;"
        case ">": escaped += "&gt;"
        case "\"": escaped += "&quot;"
        case "'": escaped += "&#39;"
        case "\n", "\t", " "..."~": escaped.unicodeScalars.append(character)
        default: escaped += visible(String(character))
        }
    }
    return escaped
}
