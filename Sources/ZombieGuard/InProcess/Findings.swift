// The findings of this process as an asynchronous sequence.

/// The findings of this process, as they are made. See ``ZombieGuard/findings``.
///
/// Several tasks may iterate; each task sees every finding. The runtime keeps the last 256 KiB of findings: a slow task
/// misses older findings.
public struct Findings: AsyncSequence, Sendable {
    /// The first finding of the sequence.
    public enum Start: Hashable, Sendable {
        /// The first finding made after the sequence was created.
        case now
        /// The oldest finding of the process that the runtime still stores.
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

    /// Waits for each finding in turn.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let runtime: GuardRuntime?
        fileprivate var next: UInt64

        /// The next finding; nil if the process is not guarded or the task is canceled.
        ///
        /// - Parameter actor: the actor of the caller.
        /// - Returns: the symbolicated finding; nil at the end.
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
