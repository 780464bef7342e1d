// Adds untrusted counts without overflow.

extension FixedWidthInteger {
    /// The sum, clamped to the range of the type. Counts in reports are untrusted.
    package func addingSaturated(_ other: Self) -> Self {
        let (sum, isOver) = addingReportingOverflow(other)
        return isOver ? (other < 0 ? .min : .max) : sum
    }
}
