// Text in the form that man takes: lines that begin with a request or a macro, and escapes.

/// A page that grows line by line.
struct Roff {
    private(set) var result = ""

    mutating func line(_ text: String) { result += text + "\n" }

    mutating func section(_ name: String) { line(".SH \(Self.quoted(name))") }

    /// Plain text, a paragraph of its own where something precedes it in its section.
    mutating func paragraph(_ text: String) {
        if !result.hasSuffix("\"\n") { line(".PP") } // behind a heading it would be one too many
        line(Self.wrapped(text))
    }

    mutating func text(_ paragraphs: [String]) {
        for text in paragraphs { paragraph(text) }
    }

    /// A tag, which is escaped already, and the text that stands behind or below it.
    mutating func item(_ tag: String, _ text: String) {
        line(".TP\n\(tag)\n\(Self.wrapped(text))")
    }

    static func bold(_ text: String) -> String { "\\fB\(escaped(text))\\fR" }
    static func italic(_ text: String) -> String { "\\fI\(escaped(text))\\fR" }

    /// An argument of a macro.
    static func quoted(_ text: String) -> String { "\"" + escaped(text).replacing("\"", with: "\\(dq") + "\"" }

    /// Text that stands for itself: no request, no escape, every hyphen one that can be copied to a shell.
    static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\e"
            case "-": escaped += "\\-"
            case "'": escaped += "\\(aq"
            case "`": escaped += "\\(ga"
            case "^": escaped += "\\(ha"
            case "~": escaped += "\\(ti"
            case "…": escaped += "..."
            case "\n": escaped += " "
            case " "..."~": escaped.unicodeScalars.append(scalar)
            default: escaped += "\\[u\(Self.digits(scalar))]"
            }
        }
        return escaped.hasPrefix(".") ? "\\&" + escaped : escaped
    }

    /// Running text in lines of at most 79 characters, as those who read the source want it.
    private static func wrapped(_ text: String) -> String {
        var lines = [""]
        for word in text.split(separator: " ") {
            let escaped = escaped(String(word))
            if lines.last!.isEmpty {
                lines[lines.count - 1] = escaped
            } else if lines.last!.count + 1 + escaped.count > 79 {
                lines.append(escaped)
            } else {
                lines[lines.count - 1] += " " + escaped
            }
        }
        return lines.joined(separator: "\n")
    }

    private static func digits(_ scalar: Unicode.Scalar) -> String {
        let digits = String(scalar.value, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }
}
