// Adds untrusted counts without overflow.

extension Int {
    /// The sum, clamped to the range of Int. Counts in reports are untrusted.
    package func addingSaturated(_ other: Int) -> Int {
        let (sum, isOver) = addingReportingOverflow(other)
        return isOver ? (other < 0 ? .min : .max) : sum
    }
}
