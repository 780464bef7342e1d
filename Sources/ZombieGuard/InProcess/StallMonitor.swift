// Stalls of the main actor as a sequence to iterate over.

/// Times that the main actor was held up, as they end.
///
/// What runs on the main actor, on Dispatch's main queue or in the main thread's `RunLoop` keeps everything else waiting that wants to run
/// there. The monitor asks the main queue for a sign of life again and again, from a thread of its own; where none comes for `over`, it looks
/// at the stack of the thread that the queue is served by, and goes on with that until there is one.
///
/// ```swift
/// Task.detached {
///     for await stall in StallMonitor(over: .milliseconds(50), times: 5) { logger.warning("\(stall)") }
/// }
/// ```
///
/// Each element is a finding of kind ``Finding/Kind/stall``: ``Finding/stall`` says how long it was, and what was done meanwhile. Stacks are
/// there where the process is guarded (``ZombieGuard/isActive``) and the kernel allows ptrace. A main queue that nobody serves, as in
/// programs with event loops of their own, has no stalls: `zguard run --collect stalls` is for them.
///
/// Time that the thread waits for a processor does not count.
public struct StallMonitor: AsyncSequence, Sendable {
    /// From when on it is a stall.
    public struct Rule: Hashable, Sendable {
        /// The main actor gives no sign of life for longer than this.
        public var over: Duration
        /// So often within ten seconds.
        public var times: Int

        /// Makes a rule of its parts.
        ///
        /// - Parameters:
        ///   - over: at least a millisecond.
        ///   - times: within ten seconds; at least one.
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

    /// A monitor that has not begun: each iteration has a thread of its own, as long as it lasts.
    ///
    /// - Parameters:
    ///   - over: how long the main actor may be held up.
    ///   - times: how often within ten seconds it must be held up for so long.
    public init(over: Duration = .milliseconds(250), times: Int = 1) { rule = Rule(over: over, times: times) }

    public func makeAsyncIterator() -> Iterator {
        let (stalls, continuation) = AsyncStream.makeStream(of: Finding.self, bufferingPolicy: .bufferingNewest(100))
        let watch = MainActorWatch(rule) { continuation.yield($0) }
        if !watch.start() { continuation.finish() }
        return Iterator(stalls: stalls.makeAsyncIterator(), ending: Ending(watch))
    }

    /// Waits for one stall after the other.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var stalls: AsyncStream<Finding>.Iterator
        fileprivate let ending: Ending

        /// The next stall; nil where the task is cancelled.
        ///
        /// - Parameter actor: the actor that waits.
        /// - Returns: the stall, with names; nil at the end.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Finding? {
            await stalls.next(isolation: actor)
        }

        public mutating func next() async -> Finding? { await next(isolation: nil) }
    }

    // The watch ends with the last copy of its iterator.
    fileprivate final class Ending: Sendable {
        private let watch: MainActorWatch
        init(_ watch: MainActorWatch) { self.watch = watch }
        deinit { watch.stop() }
    }
}
