// Writes JSON with its keys in a given order, so that lines of a report match the documentation.

/// A JSON value whose objects keep the order of their keys. For writing only.
public indirect enum JSONText: Sendable {
    /// A string. Characters that a terminal could interpret are escaped.
    case string(String)
    /// An integer.
    case integer(Int64)
    /// An unsigned integer.
    case natural(UInt64)
    /// A percentage, given in thousandths: 614 is 61.4.
    case permille(Int)
    /// `true` or `false`.
    case bool(Bool)
    /// `null`.
    case null
    /// An array.
    case array([JSONText])
    /// An object. Keys keep their order; keys whose value is nil are left out.
    case object([(key: String, value: JSONText?)])

    /// The value as one line, without a line feed at the end.
    public var line: String {
        var text = ""
        write(to: &text)
        return text
    }

    private func write(to text: inout String) {
        switch self {
        case .string(let string): Self.quote(string, to: &text)
        case .integer(let number): text += String(number)
        case .natural(let number): text += String(number)
        case .permille(let number): text += "\(number / 10)" + (number % 10 == 0 ? "" : ".\(number % 10)")
        case .bool(let value): text += value ? "true" : "false"
        case .null: text += "null"
        case .array(let values):
            text += "["
            for (index, value) in values.enumerated() {
                if index > 0 { text += "," }
                value.write(to: &text)
            }
            text += "]"
        case .object(let entries):
            text += "{"
            var isFirst = true
            for case (let key, let value?) in entries {
                if !isFirst { text += "," }
                isFirst = false
                Self.quote(key, to: &text)
                text += ":"
                value.write(to: &text)
            }
            text += "}"
        }
    }

    // Escapes characters that a terminal could interpret, because reports are shown in terminals.
    private static func quote(_ string: String, to text: inout String) {
        text += "\""
        if string.hasOnly({ $0 &- 0x20 < 0x5f && $0 != 0x22 && $0 != 0x5c }) {
            text += string
            text += "\""
            return
        }
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\t": text += "\\t"
            case _ where scalar.value < 0x20 || scalar.value > 0x7e && visible(String(scalar)) != String(scalar):
                for unit in String(scalar).utf16 {
                    let digits = String(unit, radix: 16)
                    text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}
