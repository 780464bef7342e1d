// Suppresses findings that match rules from files.

import Glibc

/// Rules from one or several files. Pass symbolicated findings only.
public struct Suppressions: Sendable {
    /// The rules in the order of matching. A finding counts for the first rule that matches.
    public private(set) var rules: [Rule] = []
    private var index = SuppressionIndex()

    /// Maximum size of a file in bytes; larger files are refused.
    public static let largestFile = 16 << 20

    /// Why a file was rejected.
    public enum Failure: Error, Sendable {
        /// The file cannot be read.
        case unreadable(SystemError)
        /// The errors in order of their lines; never empty.
        case malformed([Problem])
    }

    /// Creates an empty set of rules, which suppresses nothing.
    public init() {}

    /// Parses the text of a file. A single error rejects the whole file.
    ///
    /// - Parameters:
    ///   - text: contents of the file.
    ///   - file: name of the file in messages.
    /// - Throws: ``Failure/malformed(_:)`` with all errors.
    public init(parsing text: String, file: String) throws(Failure) {
        let parser = SuppressionParser(text, file: file)
        if !parser.problems.isEmpty {
            throw .malformed(parser.problems.sorted { $0.line < $1.line })
        }
        for rule in parser.rules { add(rule) }
    }

    /// Reads and parses a file.
    ///
    /// - Parameter path: path of a suppression file.
    /// - Throws: ``Failure`` if the file cannot be read or contains an error.
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

    /// Appends the rules of another file.
    ///
    /// - Parameter other: rules to try after these.
    public mutating func append(_ other: Suppressions) {
        for rule in other.rules { add(rule) }
    }

    private mutating func add(_ rule: Rule) {
        index.add(rule, number: rules.count)
        rules.append(rule)
    }

    /// Whether there are no rules.
    public var isEmpty: Bool { rules.isEmpty }

    /// Returns whether a rule matches the finding. The first matching rule adds the finding's count to its own.
    ///
    /// - Parameter finding: a symbolicated finding.
    /// - Returns: whether the finding is suppressed.
    public mutating func suppresses(_ finding: Finding) -> Bool {
        guard let rule = match(finding) else { return false }
        count(rule: rule, finding.count)
        return true
    }

    /// Number of the first rule that matches the finding; nil if no rule does.
    mutating func match(_ finding: Finding) -> Int? {
        if rules.isEmpty { return nil }
        let names = FindingNames(finding)
        return index.candidates(names).first { rules[$0].matches(names) }
    }

    mutating func count(rule number: Int, _ count: Int) {
        rules[number].count = rules[number].count.addingSaturated(count)
    }

    /// Rules that have suppressed nothing. Meaningful after the last finding.
    public var unused: [Rule] { rules.filter { $0.count == 0 } }

    /// Number of suppressed findings, including repeated occurrences.
    public var occurrences: Int { rules.reduce(0) { $0.addingSaturated($1.count) } }
}
