// Defines points in time, with their conversions and their text forms for reports, statistics and file names.

import Glibc

/// Nanoseconds since 1970, UTC.
public struct Timestamp: RawRepresentable, Hashable, Comparable, Sendable {
    public var rawValue: Int64

    public init(rawValue: Int64) { self.rawValue = rawValue }

    /// Creates a time from milliseconds since 1970, UTC.
    ///
    /// - Parameter milliseconds: since 1970, UTC.
    public init(milliseconds: Int64) {
        let (nanoseconds, overflow) = milliseconds.multipliedReportingOverflow(by: 1_000_000)
        rawValue = overflow ? (milliseconds < 0 ? .min : .max) : nanoseconds
    }

    /// Milliseconds since 1970.
    public var milliseconds: Int64 { rawValue / 1_000_000 }

    /// The system's time of day.
    public static var now: Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(time)
    }

    /// Converts a timespec. Times outside the years 1677 to 2262, which untrusted files may have, are clamped.
    package init(_ time: timespec) {
        let (nanoseconds, overflow) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, secondOverflow) = nanoseconds.addingReportingOverflow(Int64(time.tv_nsec))
        rawValue = overflow || secondOverflow ? (time.tv_sec < 0 ? .min : .max) : sum
    }

    /// The time as a timespec.
    package var systemTime: timespec {
        let (seconds, rest) = rawValue.quotientAndRemainder(dividingBy: 1_000_000_000)
        return rest < 0
            ? timespec(tv_sec: Int(seconds) - 1, tv_nsec: Int(rest) + 1_000_000_000)
            : timespec(tv_sec: Int(seconds), tv_nsec: Int(rest))
    }

    /// Creates a time from a date and time of day in UTC; nil if the date or time does not exist, or the year is not in
    /// 1970...2261.
    init?(_ date: (year: Int, month: Int, day: Int), _ time: (hour: Int, minute: Int, second: Int) = (0, 0, 0)) {
        guard (1970...2261).contains(date.year), (1...12).contains(date.month), (1...31).contains(date.day),
            (0...23).contains(time.hour), (0...59).contains(time.minute), (0...59).contains(time.second)
        else { return nil }
        var parts = tm()
        parts.tm_year = Int32(date.year - 1900)
        parts.tm_mon = Int32(date.month - 1)
        parts.tm_mday = Int32(date.day)
        parts.tm_hour = Int32(time.hour)
        parts.tm_min = Int32(time.minute)
        parts.tm_sec = Int32(time.second)
        let seconds = timegm(&parts)
        if Int(parts.tm_mday) != date.day { return nil } // timegm turned February 30 into March 2
        rawValue = Int64(seconds) * 1_000_000_000
    }

    public static func < (a: Timestamp, b: Timestamp) -> Bool { a.rawValue < b.rawValue }

    /// The time `seconds` before this time; on overflow, the earliest representable time.
    package func earlier(bySeconds seconds: Int64) -> Timestamp {
        let (nanoseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (difference, secondOverflow) = rawValue.subtractingReportingOverflow(nanoseconds)
        return Timestamp(rawValue: overflow || secondOverflow ? .min : difference)
    }

    /// The day in UTC: "2026-11-21".
    package var day: String {
        // Days since March 1 of year 0, in cycles of 400 years. With years that start in March, the leap day is the
        // last day of its year.
        let number = (rawValue >= 0 ? rawValue / 86_400_000_000_000 : (rawValue + 1) / 86_400_000_000_000 - 1) + 719_468
        let (cycle, days) = (number / 146_097, number % 146_097)
        let year = (days - days / 1460 + days / 36_524 - days / 146_096) / 365
        let ofYear = days - (365 * year + year / 4 - year / 100)
        let month = (5 * ofYear + 2) / 153
        func digits(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let calendar = (year: cycle * 400 + year + (month < 10 ? 0 : 1), month: month < 10 ? month + 3 : month - 9)
        return "\(calendar.year)-\(digits(calendar.month))-\(digits(ofYear - (153 * month + 2) / 5 + 1))"
    }

    /// The time of day in UTC, zero-padded. `fields` are hour, minute and second.
    private var time: (fields: [String], milliseconds: String) {
        let milliseconds = rawValue / 1_000_000 - (rawValue % 1_000_000 < 0 ? 1 : 0)
        let ofDay = (milliseconds % 86_400_000 + 86_400_000) % 86_400_000
        func digits(_ number: Int64, _ count: Int) -> String {
            String(repeating: "0", count: max(0, count - String(number).count)) + String(number)
        }
        return (
            [ofDay / 3_600_000, ofDay / 60_000 % 60, ofDay / 1000 % 60].map { digits($0, 2) }, digits(ofDay % 1000, 3)
        )
    }

    /// The form used in file names: "20261121T203921.123Z". Sorts chronologically.
    package var compact: String { "\(day.filter { $0 != "-" })T\(time.fields.joined()).\(time.milliseconds)Z" }

    /// Parses a text in the form of ``compact``; nil for any other text.
    package init?(compact text: some StringProtocol) {
        let bytes = Array(text.utf8)
        func number(_ range: Range<Int>) -> Int? {
            bytes[range].allSatisfy { (0x30...0x39).contains($0) }
                ? Int(String(decoding: bytes[range], as: UTF8.self)) : nil
        }
        guard bytes.count == 20, bytes[8] == UInt8(ascii: "T"), bytes[15] == UInt8(ascii: "."),
            bytes[19] == UInt8(ascii: "Z"), let year = number(0..<4), let month = number(4..<6),
            let day = number(6..<8), let hour = number(9..<11), let minute = number(11..<13),
            let second = number(13..<15), let milliseconds = number(16..<19),
            let whole = Timestamp((year, month, day), (hour, minute, second))
        else { return nil }
        rawValue = whole.rawValue + Int64(milliseconds) * 1_000_000
    }
}

extension Timestamp: CustomStringConvertible {
    /// ISO 8601 in UTC: "2026-11-21T20:39:21.250Z", without the fraction if it is 0.
    public var description: String {
        let time = time
        let fraction = time.milliseconds == "000" ? "" : ".\(time.milliseconds)"
        return "\(day)T\(time.fields.joined(separator: ":"))\(fraction)Z"
    }
}
