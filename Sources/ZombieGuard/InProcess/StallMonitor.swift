// Stalls of the main actor as an asynchronous sequence.

/// Stalls of the main actor, reported as they end.
///
/// Code that runs on the main actor, on Dispatch's main queue or in the main thread's `RunLoop` delays everything else
/// that must run there. The monitor pings the main queue from a thread of its own. A ping that gets no answer for
/// `over` is a stall. While the answer is missing, the monitor samples the stack of the thread that serves the queue.
///
/// ```swift
/// Task.detached {
///     for await stall in StallMonitor(over: .milliseconds(50), times: 5) { logger.warning("\(stall)") }
/// }
/// ```
///
/// Each element is a finding of kind ``Finding/Kind/stall``; ``Finding/stall`` has its duration and its samples. Stacks
/// are available if the process is guarded (``ZombieGuard/isActive``) and the kernel permits ptrace. A main queue that
/// no thread serves, as in programs with their own event loops, has no stalls: use `zguard run --collect stalls` for
/// these.
///
/// Time in which the thread waits for a processor does not count.
public struct StallMonitor: AsyncSequence, Sendable {
    /// Conditions that make a delay a stall.
    public struct Rule: Hashable, Sendable {
        /// Duration for which the main queue must have failed to answer.
        public var over: Duration
        /// Number of such delays within ten seconds.
        public var times: Int

        /// Makes a rule.
        ///
        /// - Parameters:
        ///   - over: minimum duration of a delay, at least a millisecond.
        ///   - times: number of delays within ten seconds, at least one.
        public init(over: Duration = .milliseconds(250), times: Int = 1) {
            self.over = Swift.max(over, .milliseconds(1))
            self.times = Swift.max(times, 1)
        }

        var milliseconds: UInt64 {
            let parts = over.components
            return UInt64(Swift.min(parts.seconds, 1 << 40)) * 1000 + UInt64(parts.attoseconds / 1_000_000_000_000_000)
        }
    }

    public typealias Element = Finding
    public typealias Failure = Never

    private let rule: Rule

    /// Makes a monitor. Each iteration has its own thread, from its start to its end.
    ///
    /// - Parameters:
    ///   - over: minimum duration of a delay.
    ///   - times: number of such delays within ten seconds.
    public init(over: Duration = .milliseconds(250), times: Int = 1) { rule = Rule(over: over, times: times) }

    public func makeAsyncIterator() -> Iterator {
        let (stalls, continuation) = AsyncStream.makeStream(of: Finding.self, bufferingPolicy: .bufferingNewest(100))
        let watch = MainActorWatch(rule) { continuation.yield($0) }
        if !watch.start() { continuation.finish() }
        return Iterator(stalls: stalls.makeAsyncIterator(), ending: Ending(watch))
    }

    /// Waits for each stall in turn.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var stalls: AsyncStream<Finding>.Iterator
        fileprivate let ending: Ending

        /// The next stall; nil if the task is canceled.
        ///
        /// - Parameter actor: the actor of the caller.
        /// - Returns: the symbolicated stall; nil at the end.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Finding? {
            await stalls.next(isolation: actor)
        }

        public mutating func next() async -> Finding? { await next(isolation: nil) }
    }

    // Stops the watch when the last copy of its iterator is destroyed.
    fileprivate final class Ending: Sendable {
        private let watch: MainActorWatch
        init(_ watch: MainActorWatch) { self.watch = watch }
        deinit { watch.stop() }
    }
}
