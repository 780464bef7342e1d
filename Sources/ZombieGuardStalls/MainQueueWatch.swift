// Detects stalls of Dispatch's main queue after a call of `dispatchMain()`, which every program with an asynchronous
// main makes. Pool workers then serve the queue, so zguard cannot watch the waits of one thread.

import Glibc
import ZombieGuard

/// Polls the main queue of one process from outside: the thread that serves it and the next pending item. While both
/// stay the same, one item holds up the queue. Polling does not slow the program.
struct MainQueueWatch {
    let process: Int
    /// Address of `_dispatch_main_q` in the process.
    let address: UInt64
    private var holdUp: Stall?
    private var recent: [StallEvent] = []
    private var isServedByMainThread = true
    private var rest = SamplingBackoff()

    /// State of the queue, from its record.
    struct State {
        /// ID of the thread that serves the queue; 0 if there is none.
        var server: Int32
        /// Address of the first pending item; 0 if the queue is empty.
        var next: UInt64
    }

    /// An item that holds up the queue. Identified by the thread that serves the queue and by the next pending item.
    private struct Stall {
        let server: Int32
        var next: UInt64
        let since: UInt64 // milliseconds
        var time: BusyTime
        /// `felt`: time since the item began, minus ``BusyTime/unfelt``. `busy`: the part of `felt` that counts towards
        /// a stall (``BusyTime/weight(of:limit:)``).
        var felt: UInt64 = 0, busy: UInt64 = 0
        var samples = StallSamples()
        var lastCount: UInt64
        var name: String? // of the server thread
        var isSaid = false
        var isAwaited: Bool { next != 0 }

        init(_ state: State, now: UInt64, isLookedAt: Bool) {
            (server, next, since, time, lastCount) = (state.server, state.next, now, BusyTime(now: now), now)
            if !isLookedAt { samples = StallSamples(next: .max) }
        }

        mutating func goesOn(in state: State) -> Bool {
            if next == 0 { next = state.next }
            return state.server == server && state.next == next
        }

        var event: StallEvent { StallEvent(thread: server, felt: felt, time, samples: samples.kept) }
    }

    /// Stalls to report.
    struct Report {
        var events: [StallEvent]
        var name: String? // thread name of the last event
        var isFreeze: Bool
        /// Whether another item is pending behind the last event's item.
        var isAwaited: Bool
    }

    private static let freezeFactor: UInt64 = 40, singleFactor: UInt64 = 2
    private static let countMilliseconds: UInt64 = 10, suspectMilliseconds: UInt64 = 50

    init(process: Int, address: UInt64) { (self.process, self.address) = (process, address) }

    /// Milliseconds until the next poll; nil while the main thread serves the queue, because the regular interval is
    /// then enough. The interval is 1 ms while an item has held up the queue for ``suspectMilliseconds`` and is not yet
    /// reported: with a longer interval, a series of short items would look like one long item. Otherwise it is 10 ms.
    func pause(now: UInt64) -> UInt64? {
        if isServedByMainThread { return nil }
        guard let holdUp, !holdUp.isSaid, now - holdUp.since >= Self.suspectMilliseconds else { return 10 }
        return 1
    }

    // The queue's record: struct dispatch_lane_s in libdispatch's src/queue_internal.h. Swift 5.5 to 6.3 have the same
    // layout.
    private static let recordBytes = 112
    private enum Place { static let state = 56, number = 64, label = 72, next = 104 }
    private static let label = Array("com.apple.main-thread".utf8)
    private static let serverBits: UInt64 = 0x3fff_ffff

    /// - Returns: nil if the record of the main queue is not at the address.
    static func state(at address: UInt64, in memory: ProcessMemory) -> State? {
        let bytes = memory.read(at: address, upTo: recordBytes)
        guard bytes.count == recordBytes else { return nil }
        func word(_ place: Int) -> UInt64 {
            bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: place, as: UInt64.self) }
        }
        guard word(Place.number) == 1, memory.read(at: word(Place.label), upTo: label.count) == label else {
            return nil
        }
        return State(server: Int32(word(Place.state) & serverBits), next: word(Place.next))
    }

    /// Whether a thread of the pool serves the queue. False for the main thread, which serves the queue until
    /// `dispatchMain()`: its own heartbeat shows its stalls.
    private func isServed(in state: State) -> Bool {
        state.server != 0 && Int(state.server) != process
    }

    /// Parameters of one poll of the queue: times in milliseconds, and the options for stalls.
    struct Look {
        var now: UInt64
        /// The part of the time since the last poll that exceeds three regular intervals: zguard did not run in this
        /// time.
        var unseen: UInt64
        /// Shortest hold-up that counts as a stall.
        var limit: UInt64
        /// Number of stalls within ten seconds that makes a report; a single stall of twice the limit is enough.
        var times: Int
        /// Interval between samples.
        var tick: UInt64
    }

    /// - Parameters:
    ///   - state: the current state of the queue.
    ///   - sample: takes a sample of a thread; nil if the thread cannot be stopped.
    mutating func look(_ state: State, _ look: Look, sample: (Int32) -> StallSample?) -> Report? {
        let (now, unseen, limit, times, tick) = (look.now, look.unseen, look.limit, look.times, look.tick)
        guard holdUp?.goesOn(in: state) ?? false else {
            let report = conclude(limit: limit, times: times)
            holdUp = isServed(in: state) ? Stall(state, now: now, isLookedAt: rest.isOver) : nil
            isServedByMainThread = Int(state.server) == process
            return report
        }
        guard now - holdUp!.lastCount >= Self.countMilliseconds || unseen > 0,
            let seen = ThreadTimes(of: process, thread: UInt32(bitPattern: state.server))
        else { return nil }
        holdUp!.lastCount = now
        holdUp!.time.count(seen, now: now, unseen: unseen)
        holdUp!.felt = holdUp!.time.felt(since: holdUp!.since, until: now)
        holdUp!.busy = holdUp!.time.weight(of: holdUp!.felt, limit: limit)
        let busy = holdUp!.busy
        if holdUp!.samples.next == .max, busy >= 4 * limit { holdUp!.samples.next = now }
        if busy * 2 >= limit, !seen.isStopped, now >= holdUp!.samples.next {
            holdUp!.samples.plan(after: now, tick: tick)
            if holdUp!.name == nil { holdUp!.name = ThreadTimes.name(of: state.server, in: process) }
            if let sample = sample(state.server) { holdUp!.samples.add(sample) }
        }
        if busy >= max(limit * Self.freezeFactor, 2000), !holdUp!.isSaid {
            holdUp!.isSaid = true
            return Report(
                events: [holdUp!.event], name: holdUp!.name, isFreeze: true, isAwaited: holdUp!.isAwaited)
        }
        return nil
    }

    /// Pauses sampling for twice as many hold-ups as the last time (``SamplingBackoff``). Call if the finding was
    /// already known.
    mutating func restMore() { rest.more() }

    /// Call when the process has ended. Returns a report if an item then held up the queue for at least `limit`; nil if
    /// that hold-up was already reported.
    mutating func finish(now: UInt64, limit: UInt64) -> Report? {
        defer { holdUp = nil }
        guard let holdUp, !holdUp.isSaid, holdUp.busy >= limit else { return nil }
        return Report(
            events: [holdUp.event], name: holdUp.name, isFreeze: true, isAwaited: holdUp.isAwaited)
    }

    private mutating func conclude(limit: UInt64, times: Int) -> Report? {
        guard let holdUp, !holdUp.isSaid, holdUp.busy >= limit else { return nil }
        rest.passes()
        recent.addRecent(holdUp.event)
        guard holdUp.busy >= limit * Self.singleFactor || recent.count >= times else { return nil }
        defer { recent = [] }
        return Report(events: recent, name: holdUp.name, isFreeze: false, isAwaited: holdUp.isAwaited)
    }
}
