// Rules that cut what a finding says before it leaves the machine. docs/PRIVACY.md has the grammar.

import Glibc

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What is taken out of findings.
public struct Redaction: Sendable {
    private enum Rule: Sendable {
        /// Every value of that name, wherever it stands.
        case drop(String)
        /// In every text; an asterisk stands for a part of a path.
        case replace([String], String)
    }

    private var rules: [Rule] = []

    /// What may be dropped: nothing that a finding is no finding without.
    static let keys = [
        "access", "address", "alloc_thread", "allocated_size", "block", "build_id", "class", "column", "confidence",
        "detail",
        "file", "free_thread", "function", "history", "host", "line", "member", "module", "name", "offset", "pid",
        "program",
        "thread", "time", "version",
    ]
    static let cut = "redacted"

    /// - Parameters:
    ///   - text: the rules, one a line.
    ///   - file: how the file is called in messages.
    /// - Throws: ``FleetError`` that names the first line that is wrong: a rule that is not understood must not be left out.
    public init(_ text: String, file: String) throws(FleetError) {
        for (number, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let words = line.split(whereSeparator: { $0 == " " || $0 == "\t" }).map(String.init)
            guard let verb = words.first, !verb.hasPrefix("#") else { continue }
            func wrong(_ reason: String) -> FleetError { FleetError("\(visible(file)):\(number + 1): \(reason)") }
            switch (verb, words.count) {
            case ("drop", 2...):
                for key in words.dropFirst() {
                    guard Self.keys.contains(key) else {
                        let nearest = nearestName(to: key, among: Self.keys).map { ": did you mean '\($0)'?" } ?? ""
                        throw wrong("'\(visible(key))' cannot be dropped\(nearest)")
                    }
                    rules.append(.drop(key))
                }
            case ("replace", 3):
                let parts = words[1].split(separator: "*", omittingEmptySubsequences: false).map(String.init)
                if parts[0].isEmpty { throw wrong("what is replaced begins with a text, such as /home/*/") }
                rules.append(.replace(parts, words[2]))
            default: throw wrong("expected 'drop KEY…' or 'replace FROM TO'")
            }
        }
    }

    /// What leaves the machine in the place of a finding's line, but for its signature and origin; nil where it cannot be read.
    func applied(to line: String) -> String? {
        guard case .object(var entries) = try? JSONDecoder().decode(JSONValue.self, from: Data(line.utf8)) else {
            return nil
        }
        for key in ["signature", "origin"] { entries[key] = nil }
        return applied(to: .object(entries)).text.line
    }

    /// What leaves the machine as its name.
    func host(_ name: String) -> String { dropped.contains("host") ? Self.cut : replaced(name) }

    /// Names of what is dropped.
    var dropped: Set<String> {
        Set(rules.compactMap { if case .drop(let key) = $0 { key } else { nil } })
    }

    private func applied(to value: JSONValue) -> JSONValue {
        switch value {
        case .string(let text): .string(replaced(text))
        case .array(let values): .array(values.map { applied(to: $0) })
        case .object(let entries):
            .object(entries.filter { !dropped.contains($0.key) }.mapValues { applied(to: $0) })
        case .integer, .natural, .number, .bool, .null: value
        }
    }

    private func replaced(_ text: String) -> String {
        var text = text
        for case .replace(let parts, let new) in rules where text.contains(parts[0]) {
            text = Self.replacing(parts, with: new, in: Array(text.utf8))
        }
        return text
    }

    private static func replacing(_ parts: [String], with new: String, in text: [UInt8]) -> String {
        let pieces = parts.map { Array($0.utf8) }
        var result: [UInt8] = []
        var index = 0
        while index < text.count {
            if let end = match(pieces[...], in: text, at: index), end > index {
                result += new.utf8
                index = end
            } else {
                result.append(text[index])
                index += 1
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// Where a match that begins at `start` ends: the pieces one behind the other, with a part of a path between any two.
    private static func match(_ pieces: ArraySlice<[UInt8]>, in text: [UInt8], at start: Int) -> Int? {
        guard let first = pieces.first else { return start }
        guard text[start...].starts(with: first) else { return nil }
        let rest = pieces.dropFirst()
        var end = start + first.count
        if rest.isEmpty { return end }
        // The longest part: a shorter one would leave some of a name behind.
        while end < text.count, text[end] != UInt8(ascii: "/") { end += 1 }
        while end > start + first.count {
            if let found = match(rest, in: text, at: end) { return found }
            end -= 1
        }
        return nil
    }
}

/// Any value of JSON, to be written again.
private indirect enum JSONValue: Decodable {
    case null
    case bool(Bool)
    case integer(Int64)
    case natural(UInt64)
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if value.decodeNil() {
            self = .null
        } else if let bool = try? value.decode(Bool.self) {
            self = .bool(bool)
        } else if let text = try? value.decode(String.self) {
            self = .string(text)
        } else if let integer = try? value.decode(Int64.self) {
            self = .integer(integer)
        } else if let natural = try? value.decode(UInt64.self) {
            self = .natural(natural)
        } else if let number = try? value.decode(Double.self) {
            self = .number(number)
        } else if let values = try? value.decode([JSONValue].self) {
            self = .array(values)
        } else {
            self = .object(try value.decode([String: JSONValue].self))
        }
    }

    /// With the schema first, which the reader looks for behind a line that is cut off.
    var text: JSONText {
        switch self {
        case .null: .null
        case .bool(let bool): .bool(bool)
        case .integer(let integer): .integer(integer)
        case .natural(let natural): .natural(natural)
        case .number(let number): .string(String(number))
        case .string(let text): .string(text)
        case .array(let values): .array(values.map(\.text))
        case .object(let entries):
            .object(
                entries.sorted { ($0.key != "schema" ? 1 : 0, $0.key) < ($1.key != "schema" ? 1 : 0, $1.key) }
                    .map { ($0.key, $0.value.text) })
        }
    }
}
