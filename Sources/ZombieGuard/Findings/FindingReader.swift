// Reads raw or finished findings from JSON lines.

import Glibc

/// Reads the findings of a JSON Lines file. Several processes may append to the file at the same time, and lines may be
/// truncated or garbage: the reader returns such lines as ``Entry/skipped(line:reason:)``.
public struct FindingReader {
    /// One line of the file.
    public enum Entry: Hashable, Sendable {
        /// A finding and its line number, from 1.
        case finding(Finding, line: Int)
        /// Sizes of heap and quarantine at one moment; such lines are interleaved with findings.
        case timeline(TimelineSample, line: Int)
        /// The end of the reported run; follows the findings of the run.
        case run(RunLine, line: Int)
        /// A line that cannot be parsed, its number, and the reason, which is safe to print.
        case skipped(line: Int, reason: String)
    }

    private var lines: LineReader
    private var isUTF16 = false
    /// A second entry of the current line, returned by the next call.
    private var pending: Entry?
    private let author: Author
    /// Whether a line holds only the beginning of a finding, because its process was killed while writing.
    package private(set) var hasTruncatedFinding = false
    /// The header line of a file of raw findings that a run keeps beside its report; nil for any other file.
    package private(set) var unfinished: UnfinishedLine?
    /// Number of bytes in all complete lines read so far.
    package var offset: UInt64 { lines.offset }
    /// Source text of the last finding that ``next()`` returned.
    package private(set) var text = ""

    /// Creates a reader that reads lines on demand.
    ///
    /// - Parameters:
    ///   - source: the bytes of the file.
    ///   - author: the user who may have written the file.
    package init(source: any ByteSource, author: Author = .unknown) {
        lines = LineReader(source: source)
        self.author = author
    }

    /// The reason why a compressed file ended early: corrupt, truncated, or too large when decompressed. nil if it was
    /// read to its end.
    public var problem: String? { lines.problem }

    /// Returns the next complete line that is not blank. At the end of the data available so far it returns nil; call
    /// it again after the file has grown.
    ///
    /// - Returns: the parsed line; nil at the end of the data available so far.
    /// - Throws: ``SystemError`` if the file cannot be read.
    public mutating func next() throws(SystemError) -> Entry? {
        if let entry = takePending() { return entry }
        while let line = try lines.next() {
            if let entry = entry(of: line) { return entry }
        }
        return nil
    }

    /// Returns the unterminated last line once the file no longer grows: a finding without its line feed, or a
    /// truncated line.
    ///
    /// - Returns: the parsed rest of the file; nil if there is none.
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
        if isUTF16 { return skipped("UTF-16; reports must be UTF-8") }
        if bytes.withUnsafeBytes({ $0.baseAddress.map { memchr($0, 0, bytes.count) } ?? nil }) != nil {
            return skipped("it contains a NUL byte")
        }
        if bytes.allSatisfy({ $0 == 0x20 || (0x09...0x0d).contains($0) }) { return nil }
        // Program paths need not be UTF-8: replace invalid bytes rather than reject the line.
        var text = String(decoding: bytes, as: UTF8.self)
        let problem: JSONScanner.Problem
        do throws(JSONScanner.Problem) {
            let finding = try JSONScanner.read(&text, Finding.read)
            self.text = text
            return .finding(authored(finding), line: line.number)
        } catch {
            problem = error
        }
        if line.number == 1, let unfinished = UnfinishedLine(jsonLine: text) {
            self.unfinished = unfinished
            return nil
        }
        guard let reason = Self.explain(problem, &text, isCutOff: line.isCutOff) else {
            if let run = RunLine(jsonLine: text) { return .run(run, line: line.number) }
            let sample = TimelineSample(jsonLine: text)
            return sample.map { .timeline($0, line: line.number) } ?? skipped("not a sample of the heap")
        }
        // One process was killed while writing its line, and another process appended its finding to that line.
        if let start = Self.lastFinding(in: bytes) {
            var last = String(decoding: bytes[start...], as: UTF8.self)
            if let finding = try? JSONScanner.read(&last, Finding.read) {
                pending = .finding(authored(finding), line: line.number)
                self.text = last
                return skipped("truncated; another finding follows in the same line")
            }
        }
        hasTruncatedFinding = hasTruncatedFinding || line.isCutOff && bytes.starts(with: Self.start)
        return skipped(reason)
    }

    // A shipped finding may come from any user of any machine.
    private func authored(_ finding: Finding) -> Finding {
        var finding = finding
        finding.author = finding.origin == nil ? author.limited(by: finding.author) : .unknown
        return finding
    }

    private static let start = Array("{\"schema\":\"\(Finding.schema)\"".utf8)

    /// Index at which the last finding in the line begins, if that is behind the line's start; otherwise nil. The
    /// pattern that is searched for cannot match inside a JSON string, where quotes are escaped.
    private static func lastFinding(in bytes: ArraySlice<UInt8>) -> Int? {
        guard bytes.count > start.count else { return nil }
        return bytes.indices.dropFirst().dropLast(start.count - 1).last { index in
            bytes[index] == start[0] && bytes[index..<index + start.count].elementsEqual(start)
        }
    }

    /// The reason why a line does not parse as a finding; nil if its schema says that it is a line of another kind.
    private static func explain(_ problem: JSONScanner.Problem, _ line: inout String, isCutOff: Bool) -> String? {
        guard let header = try? JSONScanner.read(&line, Header.read) else {
            return isCutOff ? "cut off" : "not a finding"
        }
        guard let schema = header.schema else { return "no schema" }
        if schema == TimelineSample.schema || schema == RunLine.schema { return nil }
        if schema != Finding.schema { return "schema '\(visible(schema))' is not known to this version of zguard" }
        return problem.description
    }

    private struct Header: JSONObject {
        var schema: String?

        static let blank = Header()
        static let fields = JSONFields<Header>([.optional("schema", \.schema)])
    }
}

extension JSONScanner.Problem {
    /// The reason in words, such as "'stacks.free[0].pc' is missing". Safe to print.
    fileprivate var description: String {
        var text = ""
        for part in path.reversed() { text += text.isEmpty || part.hasPrefix("[") ? part : "." + part }
        return switch reason {
        case .malformed, .otherSchema: "not a finding"
        case .outOfRange: "a value is out of range"
        case .missing: "'\(visible(text))' is missing"
        case .wrongType: "'\(visible(text))' has a value of the wrong type"
        }
    }
}
