// Generates roff, the input format of man: lines that begin with a request or macro, and escapes.

/// A manual page to which lines are appended.
struct Roff {
    private(set) var result = ""

    mutating func line(_ text: String) { result += text + "\n" }

    mutating func section(_ name: String) { line(".SH \(Self.quoted(name))") }

    /// Appends text, as a new paragraph unless it is the first text of its section.
    mutating func paragraph(_ text: String) {
        if !result.hasSuffix("\"\n") { line(".PP") } // a heading already starts a paragraph
        line(Self.wrapped(text))
    }

    mutating func text(_ paragraphs: [String]) {
        for text in paragraphs { paragraph(text) }
    }

    /// Appends a tagged paragraph. `tag` must be escaped already.
    mutating func item(_ tag: String, _ text: String) {
        line(".TP\n\(tag)\n\(Self.wrapped(text))")
    }

    static func bold(_ text: String) -> String { "\\fB\(escaped(text))\\fR" }
    static func italic(_ text: String) -> String { "\\fI\(escaped(text))\\fR" }

    /// Quotes an argument of a macro.
    static func quoted(_ text: String) -> String { "\"" + escaped(text).replacing("\"", with: "\\(dq") + "\"" }

    /// Escapes literal text, so that it contains no requests or escapes and its hyphens can be copied to a shell.
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

    /// Wraps text at 79 characters, for readers of the roff source.
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
