// Redaction rules, applied to findings before they leave the machine. docs/PRIVACY.md has the grammar.

import Glibc
import ZombieGuard

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A set of rules that remove private data from findings.
public struct Redaction: Sendable {
    /// Patterns to replace in every string, and their replacements, in the order of the file.
    private var replacements: [(pattern: PathPattern, text: [UInt8])] = []
    /// JSON keys whose entries are removed.
    private(set) var dropped: Set<String> = []

    /// JSON keys that a rule may drop. Keys without which a line is not a finding are not in this list.
    static let keys = [
        "access", "address", "alloc_thread", "allocated_size", "block", "build_id", "class", "column", "confidence",
        "detail",
        "file", "free_thread", "function", "history", "host", "line", "member", "module", "name", "offset", "pid",
        "program",
        "thread", "time", "version",
    ]
    static let cut = "redacted"

    /// - Parameters:
    ///   - text: the rules, one per line.
    ///   - file: name of the file in messages.
    /// - Throws: ``FleetError`` that names the first invalid line. Ignoring an unknown rule would leak data.
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
                    dropped.insert(key)
                }
            case ("replace", 3):
                do throws(PathPattern.Malformed) {
                    replacements.append((try PathPattern(words[1]), Array(words[2].utf8)))
                } catch {
                    throw wrong(error.reason)
                }
            default: throw wrong("expected 'drop KEY…' or 'replace FROM TO'")
            }
        }
    }

    /// The redacted line of a finding, without its signatures and origin; nil if the line cannot be decoded.
    func applied(to line: String) -> String? {
        guard case .object(var entries) = try? JSONDecoder().decode(JSONValue.self, from: Data(line.utf8)) else {
            return nil
        }
        for key in ["signature", "former_signatures", "origin"] { entries[key] = nil }
        return applied(to: .object(entries)).text.line
    }

    /// The redacted name of the machine.
    func host(_ name: String) -> String { dropped.contains("host") ? Self.cut : replaced(name) }

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
        var bytes: [UInt8]?
        for (pattern, new) in replacements {
            if let changed = pattern.replacing(in: bytes ?? Array(text.utf8), with: new) { bytes = changed }
        }
        return bytes.map { String(decoding: $0, as: UTF8.self) } ?? text
    }
}

/// Any JSON value, so that unknown keys are redacted and encoded again.
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

    /// Encodes the schema first, because the reader searches for the schema after a torn line.
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
