// Reads findings, raw or finished, from JSON lines.

import Glibc

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Reads the findings of a file, one JSON line after the other. The file may be written to meanwhile, by several
/// processes, and may hold lines that are cut off or garbage: those are handed out as skipped, with their number.
public struct FindingReader {
    /// A line of the file.
    public enum Entry: Hashable, Sendable {
        case finding(Finding, line: Int)
        case skipped(line: Int, reason: String)
    }

    private var lines: LineReader
    private let decoder = JSONDecoder()

    public init(opening path: String) throws(SystemError) {
        let file = try Descriptor(opening: path)
        if file.isDirectory { throw SystemError(number: EISDIR) }
        self.init(file: file)
    }

    public init(file: Descriptor) { lines = LineReader(file: file) }

    /// The next complete line that is not blank; nil at the end of what is there now. Call again when the file has grown.
    public mutating func next() throws(SystemError) -> Entry? {
        while let line = try lines.next() {
            if let entry = entry(of: line) { return entry }
        }
        return nil
    }

    /// What follows the last line feed, once the file does not grow any more: a finding whose line feed is missing,
    /// or a line that was cut off.
    public mutating func finish() -> Entry? { lines.finish().flatMap { entry(of: $0) } }

    private struct Header: Decodable {
        var schema: String?
    }

    private func entry(of line: LineReader.Line) -> Entry? {
        func skipped(_ reason: String) -> Entry { .skipped(line: line.number, reason: reason) }
        if line.isTooLong { return skipped("longer than \(LineReader.longestLine) bytes") }
        // Paths of programs need not be UTF-8; what is not is replaced rather than refused.
        let text = String(decoding: line.bytes, as: UTF8.self)
        if text.allSatisfy(\.isWhitespace) { return nil }
        let data = Data(text.utf8)
        guard let header = try? decoder.decode(Header.self, from: data) else {
            return skipped(line.isCutOff ? "cut off" : "not a finding")
        }
        guard let schema = header.schema else { return skipped("no schema") }
        guard schema == Finding.schema else {
            return skipped("schema '\(visible(schema))' is not known to this version of zguard")
        }
        do {
            return .finding(try decoder.decode(Finding.self, from: data), line: line.number)
        } catch {
            return skipped(Self.explain(error))
        }
    }

    private static func explain(_ error: any Error) -> String {
        guard let error = error as? DecodingError else { return "not a finding" }
        func path(_ context: DecodingError.Context, _ last: (any CodingKey)? = nil) -> String {
            visible((context.codingPath + (last.map { [$0] } ?? [])).map(\.stringValue).joined(separator: "."))
        }
        switch error {
        case .keyNotFound(let key, let context): return "'\(path(context, key))' is missing"
        case .dataCorrupted(let context) where context.codingPath.isEmpty: return "a value is out of range"
        case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
            return "'\(path(context))' has a value of the wrong type"
        @unknown default: return "not a finding"
        }
    }
}
