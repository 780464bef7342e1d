// The findings of this process as a sequence to iterate over.

/// The findings of this process, as they are made. See ``ZombieGuard/findings``.
///
/// Several tasks may iterate, each sees every finding. What nobody fetches in time is skipped: the runtime keeps the last
/// 256 KiB of findings.
public struct Findings: AsyncSequence, Sendable {
    /// Where the sequence begins.
    public enum Start: Hashable, Sendable {
        /// With the first finding made after the sequence was.
        case now
        /// With the first finding of the process that is still kept.
        case start
    }

    public typealias Element = Finding
    public typealias Failure = Never

    private let runtime: GuardRuntime?
    private let first: UInt64

    init(runtime: GuardRuntime?, since start: Start) {
        self.runtime = runtime
        first = start == .now ? runtime?.findingNumbers.upperBound ?? 0 : 0
    }

    public func makeAsyncIterator() -> Iterator { Iterator(runtime: runtime, next: first) }

    /// Waits for one finding after the other.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let runtime: GuardRuntime?
        fileprivate var next: UInt64

        /// The next finding; nil where the process is not guarded or the task is cancelled.
        ///
        /// - Parameter actor: the actor that waits.
        /// - Returns: the finding, with names; nil at the end.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Finding? {
            guard let runtime else { return nil }
            while !Task.isCancelled {
                let numbers = runtime.findingNumbers
                next = Swift.max(next, numbers.lowerBound)
                if next >= numbers.upperBound {
                    await runtime.watcher.wait(for: next)
                    continue
                }
                let number = next
                next += 1
                if let finding = runtime.finding(number) { return finding }
            }
            return nil
        }

        public mutating func next() async -> Finding? { await next(isolation: nil) }
    }
}
