// Findings that somebody has decided not to see: rules from files, and which findings they are for.

import Glibc

/// Rules of one or several files. Ask it about findings whose frames have their names.
public struct Suppressions: Sendable {
    /// In the order in which they are tried: of several that match a finding the first counts it.
    public private(set) var rules: [Rule] = []
    private var index = SuppressionIndex()

    /// Files beyond this size are refused.
    public static let largestFile = 16 << 20

    /// Why a file was not taken.
    public enum Failure: Error, Sendable {
        /// The file cannot be read.
        case unreadable(SystemError)
        /// Never empty, in the order of the lines.
        case malformed([Problem])
    }

    /// No rules: nothing is suppressed.
    public init() {}

    /// Parses the text of a file. `file` is its name in messages. One wrong line is enough for none of it to be taken.
    ///
    /// - Parameters:
    ///   - text: what the file holds.
    ///   - file: its name in messages.
    /// - Throws: ``Failure/malformed(_:)`` with every line that is wrong.
    public init(parsing text: String, file: String) throws(Failure) {
        let parser = SuppressionParser(text, file: file)
        if !parser.problems.isEmpty {
            throw .malformed(parser.problems.sorted { $0.line < $1.line })
        }
        for rule in parser.rules { add(rule) }
    }

    /// Reads a file.
    ///
    /// - Parameter path: of a file of suppressions.
    /// - Throws: ``Failure``, where it cannot be read or a line is wrong.
    public init(opening path: String) throws(Failure) {
        let bytes: [UInt8]
        do throws(SystemError) {
            let file = try Descriptor(opening: path)
            if file.isDirectory { throw SystemError(number: EISDIR) }
            bytes = try Self.read(file)
        } catch {
            throw .unreadable(error)
        }
        try self.init(parsing: String(decoding: bytes, as: UTF8.self), file: path)
    }

    private static func read(_ file: Descriptor) throws(SystemError) -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            let part = try file.read(upTo: 1 << 16)
            if part.isEmpty { return bytes }
            bytes += part
            if bytes.count > largestFile { throw SystemError(number: EFBIG) }
        }
    }

    /// Adds the rules of another file behind the ones there are.
    ///
    /// - Parameter other: rules that are asked after these.
    public mutating func append(_ other: Suppressions) {
        for rule in other.rules { add(rule) }
    }

    private mutating func add(_ rule: Rule) {
        index.add(rule, number: rules.count)
        rules.append(rule)
    }

    /// Whether there is no rule.
    public var isEmpty: Bool { rules.isEmpty }

    /// Whether a rule is for the finding; the first one that is counts it, as often as the finding was seen.
    ///
    /// - Parameter finding: a finding with names.
    /// - Returns: whether one is.
    public mutating func suppresses(_ finding: Finding) -> Bool {
        guard let rule = match(finding) else { return false }
        count(rule: rule, finding.count)
        return true
    }

    /// Number of the first rule that is for the finding.
    mutating func match(_ finding: Finding) -> Int? {
        if rules.isEmpty { return nil }
        let names = FindingNames(finding)
        return index.candidates(names).first { rules[$0].matches(names) }
    }

    mutating func count(rule number: Int, _ count: Int) {
        rules[number].count = rules[number].count.addingSaturated(count)
    }

    /// Rules that no finding needed, for a closing list.
    public var unused: [Rule] { rules.filter { $0.count == 0 } }

    /// How many findings were suppressed, equal ones included.
    public var occurrences: Int { rules.reduce(0) { $0.addingSaturated($1.count) } }
}
