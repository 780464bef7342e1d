// Makes text from elsewhere safe to print.

/// The text with everything escaped that a terminal might obey: control characters, line separators, characters that
/// change the direction of writing. Names and paths in reports come from programs and files that nobody vouches for.
///
/// - Parameter text: may hold anything.
/// - Returns: one line, safe to print.
public func visible(_ text: String) -> String {
    func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
        default: true
        }
    }
    if text.utf8.allSatisfy({ (0x20..<0x7f).contains($0) }) || text.unicodeScalars.allSatisfy(isPlain) { return text }
    var escaped = ""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "\n": escaped += "\\n"
        case "\t": escaped += "\\t"
        case _ where isPlain(scalar): escaped.unicodeScalars.append(scalar)
        default: escaped += "\\u{" + String(scalar.value, radix: 16) + "}"
        }
    }
    return escaped
}
