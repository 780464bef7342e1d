// Sums of counts that are whatever somebody wrote.

extension Int {
    /// The sum; the largest number where it is larger than that. Counts in reports are whatever somebody wrote.
    package func addingSaturated(_ other: Int) -> Int {
        let (sum, isOver) = addingReportingOverflow(other)
        return isOver ? (other < 0 ? .min : .max) : sum
    }
}
