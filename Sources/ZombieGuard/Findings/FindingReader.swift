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
        /// A finding, and the number of its line, from 1.
        case finding(Finding, line: Int)
        /// How large heap and quarantine were; such lines stand between findings.
        case timeline(TimelineSample, line: Int)
        /// How the run ended that the report is of; stands behind its findings.
        case run(RunLine, line: Int)
        /// A line that cannot be read, its number, and why; the reason is safe to print.
        case skipped(line: Int, reason: String)
    }

    private var lines: LineReader
    private var isUTF16 = false
    /// What stood in the same line as the entry before.
    private var pending: Entry?
    private let decoder = JSONDecoder()
    private let author: Author
    /// A line was the beginning of a finding: whoever wrote it was killed meanwhile.
    package private(set) var hasBeginning = false
    /// What the run said of itself that keeps this file beside its report; nil where it is no such file.
    package private(set) var unfinished: UnfinishedLine?
    /// Bytes of all complete lines so far.
    package var offset: UInt64 { lines.offset }
    /// What the finding that was handed out last was read from.
    package private(set) var text = ""

    /// Reads lines as they come.
    ///
    /// - Parameters:
    ///   - source: where from.
    ///   - author: who can have written them.
    package init(source: any ByteSource, author: Author = .unknown) {
        lines = LineReader(source: source)
        self.author = author
    }

    /// Why a compressed file ended before it should: it is damaged, cut off, or holds too much. nil where all of it was read.
    public var problem: String? { lines.problem }

    /// The next complete line that is not blank; nil at the end of what is there now. Call again when the file has grown.
    ///
    /// - Returns: the line's contents; nil at the end of what is there now.
    /// - Throws: ``SystemError`` where it cannot be read.
    public mutating func next() throws(SystemError) -> Entry? {
        if let entry = takePending() { return entry }
        while let line = try lines.next() {
            if let entry = entry(of: line) { return entry }
        }
        return nil
    }

    /// What follows the last line feed, once the file does not grow any more: a finding whose line feed is missing,
    /// or a line that was cut off.
    ///
    /// - Returns: what is left; nil where nothing is.
    public mutating func finish() -> Entry? { takePending() ?? lines.finish().flatMap { entry(of: $0) } }

    private mutating func takePending() -> Entry? {
        defer { pending = nil }
        return pending
    }

    private mutating func entry(of line: LineReader.Line) -> Entry? {
        func skipped(_ reason: String) -> Entry { .skipped(line: line.number, reason: reason) }
        if line.isTooLong { return skipped("longer than \(LineReader.longestLine) bytes") }
        var bytes = line.bytes[...]
        if line.number == 1 {
            isUTF16 = bytes.starts(with: [0xff, 0xfe]) || bytes.starts(with: [0xfe, 0xff])
            if bytes.starts(with: [0xef, 0xbb, 0xbf]) { bytes = bytes.dropFirst(3) }
        }
        if isUTF16 { return skipped("UTF-16, and reports are UTF-8") }
        if bytes.withUnsafeBytes({ $0.baseAddress.map { memchr($0, 0, bytes.count) } ?? nil }) != nil {
            return skipped("not text")
        }
        if bytes.allSatisfy({ $0 == 0x20 || (0x09...0x0d).contains($0) }) { return nil }
        // Paths of programs need not be UTF-8; what is not is replaced rather than refused.
        var text = String(decoding: bytes, as: UTF8.self)
        if let finding = FindingScanner.finding(&text) {
            self.text = text
            return .finding(authored(finding), line: line.number)
        }
        if line.number == 1, let unfinished = UnfinishedLine(jsonLine: text) {
            self.unfinished = unfinished
            return nil
        }
        let data = Data(text.utf8)
        do {
            let finding = try decoder.decode(Finding.self, from: data)
            self.text = text
            return .finding(authored(finding), line: line.number)
        } catch {
            guard let reason = explain(error, data, isCutOff: line.isCutOff) else {
                if let run = RunLine(jsonLine: text) { return .run(run, line: line.number) }
                let sample = TimelineSample(jsonLine: text)
                return sample.map { .timeline($0, line: line.number) }
                    ?? skipped("not a sample of the heap")
            }
            // One process was killed in the middle of its line, and another has written behind it.
            guard let whole = Self.lastFinding(in: bytes),
                let finding = try? decoder.decode(
                    Finding.self, from: Data(String(decoding: bytes[whole...], as: UTF8.self).utf8))
            else {
                hasBeginning = hasBeginning || line.isCutOff && bytes.starts(with: Self.start)
                return skipped(reason)
            }
            pending = .finding(authored(finding), line: line.number)
            self.text = String(decoding: bytes[whole...], as: UTF8.self)
            return skipped("cut off, and another finding follows")
        }
    }

    // What was shipped here may be of any machine's user.
    private func authored(_ finding: Finding) -> Finding {
        var finding = finding
        finding.author = finding.origin == nil ? author.limited(by: finding.author) : .unknown
        return finding
    }

    private static let start = Array("{\"schema\":\"\(Finding.schema)\"".utf8)

    /// Where in a line the last finding begins, but for one at its start. Within a string its quotes would have backslashes.
    private static func lastFinding(in bytes: ArraySlice<UInt8>) -> Int? {
        guard bytes.count > start.count else { return nil }
        return bytes.indices.dropFirst().dropLast(start.count - 1).last { index in
            bytes[index] == start[0] && bytes[index..<index + start.count].elementsEqual(start)
        }
    }

    private struct Header: Decodable {
        var schema: String?
    }

    /// Why a line is no finding; nil where it says so itself and is no mistake.
    private func explain(_ error: any Error, _ data: Data, isCutOff: Bool) -> String? {
        guard let header = try? decoder.decode(Header.self, from: data) else {
            return isCutOff ? "cut off" : "not a finding"
        }
        guard let schema = header.schema else { return "no schema" }
        if schema == TimelineSample.schema || schema == RunLine.schema { return nil }
        if schema != Finding.schema { return "schema '\(visible(schema))' is not known to this version of zguard" }
        return Self.explain(error)
    }

    private static func explain(_ error: any Error) -> String {
        guard let error = error as? DecodingError else { return "not a finding" }
        // "stacks.free[0].pc"
        func path(_ context: DecodingError.Context, _ last: (any CodingKey)? = nil) -> String {
            let keys = context.codingPath + (last.map { [$0] } ?? [])
            let text = keys.map { key in key.intValue.map { "[\($0)]" } ?? "." + key.stringValue }.joined()
            return visible(String(text.drop { $0 == "." }))
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

extension Finding {
    /// Reads one line of a report, of which it is not known who wrote it; nil where it is no finding.
    package init?(jsonLine line: String) {
        var line = line
        guard
            let finding = FindingScanner.finding(&line)
                ?? (try? JSONDecoder().decode(Finding.self, from: Data(line.utf8)))
        else { return nil }
        self = finding
        author = .unknown
    }
}
