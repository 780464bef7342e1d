// Parses times in ISO 8601.

extension Timestamp {
    /// Parses a date in the extended form of ISO 8601, optionally with a time of day and an offset from UTC:
    /// "2026-11-20", "2026-11-20T10:00", "2026-11-20 10:00:30.5Z", "2026-11-20T10:00+01:00". Without an offset, the
    /// time is UTC. nil for anything else.
    ///
    /// - Parameter text: a text such as `2026-11-20T10:00Z`.
    public init?(_ text: String) {
        var scanner = Scanner(text)
        guard let year = scanner.number(4), scanner.skip("-"), let month = scanner.number(2), scanner.skip("-"),
            let day = scanner.number(2)
        else { return nil }
        var time = (hour: 0, minute: 0, second: 0)
        var offset: Int64 = 0
        var fraction: Int64 = 0
        if !scanner.isAtEnd {
            guard scanner.skip("T") || scanner.skip("t") || scanner.skip(" "), let hour = scanner.number(2),
                scanner.skip(":"), let minute = scanner.number(2)
            else { return nil }
            time = (hour, minute, 0)
            if scanner.skip(":") {
                guard let second = scanner.number(2) else { return nil }
                time.second = second
                if scanner.skip(".") {
                    guard let nanoseconds = scanner.fraction() else { return nil }
                    fraction = nanoseconds
                }
            }
            guard let minutes = scanner.offset() else { return nil }
            offset = minutes
        }
        guard scanner.isAtEnd, let local = Timestamp((year, month, day), time) else { return nil }
        self = Timestamp(rawValue: local.rawValue + fraction).earlier(bySeconds: offset * 60)
    }

    /// A scanner over the bytes of a text.
    private struct Scanner {
        private var rest: Substring.UTF8View

        init(_ text: String) { rest = Substring(text).utf8 }

        var isAtEnd: Bool { rest.isEmpty }

        /// Consumes exactly `count` digits; nil if there are fewer.
        mutating func number(_ count: Int) -> Int? {
            let digits = rest.prefix(count)
            guard digits.count == count, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            rest = rest.dropFirst(count)
            return digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        }

        mutating func skip(_ character: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: character) else { return false }
            rest = rest.dropFirst()
            return true
        }

        /// Consumes the digits behind a decimal point; nil if there are none. Returns billionths; ignores digits beyond
        /// the ninth.
        mutating func fraction() -> Int64? {
            let digits = rest.prefix { (0x30...0x39).contains($0) }
            rest = rest.dropFirst(digits.count)
            if digits.isEmpty { return nil }
            let nine = digits.prefix(9).map { Int64($0 - 0x30) }
            return (nine + Array(repeating: 0, count: 9 - nine.count)).reduce(0) { $0 * 10 + $1 }
        }

        /// Consumes an offset ("Z", "+01:00", "-0530"), or nothing at the end of the text. Returns minutes; nil if the
        /// offset is malformed.
        mutating func offset() -> Int64? {
            if isAtEnd || skip("Z") || skip("z") { return 0 }
            let isWest = skip("-")
            guard isWest || skip("+"), let hours = number(2), hours < 24 else { return nil }
            _ = skip(":")
            guard let minutes = isAtEnd ? 0 : number(2), minutes < 60 else { return nil }
            return Int64(hours * 60 + minutes) * (isWest ? -1 : 1)
        }
    }
}
