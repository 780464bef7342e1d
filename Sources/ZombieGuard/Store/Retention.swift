// Retention limits of reports, and the parsers of `--keep-age`, `--keep-count` and `--keep-bytes`.

/// A malformed value. Messages print `expected` after the word "expected".
public struct ValueError: Error, Hashable, Sendable {
    /// A description of valid values, such as "a number of days".
    public var expected: String

    /// Makes an error with a description of valid values.
    ///
    /// - Parameter expected: a description such as "a number of days".
    public init(expected: String) { self.expected = expected }
}

/// Limits on the finished reports that stay in a store; nil means no limit.
public struct Retention: Hashable, Sendable {
    /// Maximum age in seconds since the last write.
    public var age: Int64?
    /// Maximum number of reports.
    public var count: Int?
    /// Maximum size of all reports on disk, in bytes. Compressed reports count by compressed size.
    public var bytes: UInt64?

    /// A week, 1,000 reports, 256 MiB.
    public static let standard = Retention(age: 7 * 86400, count: 1000, bytes: 256 << 20)

    /// No limits.
    public static let unlimited = Retention(age: nil, count: nil, bytes: nil)

    /// Makes limits; nil means no limit.
    ///
    /// - Parameters:
    ///   - age: maximum age in seconds since the last write.
    ///   - count: maximum number of reports.
    ///   - bytes: maximum size of all reports on disk, in bytes.
    public init(age: Int64?, count: Int?, bytes: UInt64?) {
        self.age = age
        self.count = count
        self.bytes = bytes
    }

    /// The value of an option that removes a limit.
    public static let none = "none"

    /// Parses an age such as "7d", "12h", "30m", "2w", "90s", or "none".
    ///
    /// - Parameter text: a number and a unit, or "none".
    /// - Returns: seconds; nil for "none".
    /// - Throws: ``ValueError`` for any other text.
    public static func age(_ text: String) throws(ValueError) -> Int64? {
        if text == none { return nil }
        guard let seconds = parseAge(text), seconds > 0 else {
            throw ValueError(expected: "a number with s, m, h, d or w, such as 12h or 7d, or none")
        }
        return seconds
    }

    /// Parses a number of reports, or "none".
    ///
    /// - Parameter text: a number, or "none".
    /// - Returns: the number; nil for "none".
    /// - Throws: ``ValueError`` for any other text.
    public static func count(_ text: String) throws(ValueError) -> Int? {
        if text == none { return nil }
        guard let count = UInt64(digits: text), (1...1_000_000_000).contains(count) else {
            throw ValueError(expected: "1 to 1000000000, or none")
        }
        return Int(count)
    }

    /// Parses a size: "256m" is 268435456. The suffixes are those of the runtime's options.
    ///
    /// - Parameter text: a number with or without a suffix, or "none".
    /// - Returns: bytes; nil for "none".
    /// - Throws: ``ValueError`` for any other text.
    public static func bytes(_ text: String) throws(ValueError) -> UInt64? {
        if text == none { return nil }
        let shifts: [Character: UInt64] = ["k": 10, "m": 20, "g": 30, "t": 40]
        let shift = text.last.flatMap { shifts[Character($0.lowercased())] }
        guard let number = UInt64(digits: shift == nil ? text[...] : text.dropLast()), number > 0,
            number <= UInt64(1) << (62 - (shift ?? 0))
        else { throw ValueError(expected: "a number of bytes, with or without k, m, g or t, such as 256m, or none") }
        return number << (shift ?? 0)
    }

    /// Parses an age of at most 100 years, in seconds; nil for any other text.
    package static func parseAge(_ text: String) -> Int64? {
        let units: [Character: UInt64] = ["s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400]
        guard let unit = text.last.flatMap({ units[$0] }), let number = UInt64(digits: text.dropLast()),
            number <= 100 * 366 * 86400 / unit
        else { return nil }
        return Int64(number * unit)
    }
}
