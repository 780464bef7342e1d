// Parser of `--since`: an age, or a date.

extension Timestamp {
    /// Parses an age before `now` ("2d", "12h"), or a date with or without a time of day: see ``init(_:)``.
    ///
    /// - Parameters:
    ///   - text: an age or a date.
    ///   - now: current time, from which the age is subtracted.
    /// - Throws: ``ValueError`` for any other text.
    public init(since text: String, now: Timestamp = .now) throws(ValueError) {
        if let seconds = Retention.parseAge(text) {
            self = now.earlier(bySeconds: seconds)
        } else if let moment = Timestamp(text) {
            self = moment
        } else {
            throw ValueError(expected: "an age such as 2d or 12h, or a date such as 2026-11-20 or 2026-11-20T10:00Z")
        }
    }
}
