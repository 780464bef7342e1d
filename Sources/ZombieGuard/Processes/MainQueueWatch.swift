// Dispatch's main queue after `dispatchMain()`, so in every program whose main is asynchronous: workers serve it, which wait for nothing.

import Glibc

/// Looks at the main queue of one process from outside: who serves it, and which item is the next one. It is held up for as long as both
/// stay what they are. Costs the program nothing.
struct MainQueueWatch {
    let process: Int
    /// Of `_dispatch_main_q` in the process's memory.
    let address: UInt64
    private var holdUp: HoldUp?
    private var recent: [StallEvent] = []
    private var isOfMain = true
    private var rest = StallRest()

    /// What the queue's record says.
    struct State {
        /// The kernel's number of the thread that serves it; 0: nobody does.
        var server: Int32
        /// The address of the first item that waits; 0: none does.
        var next: UInt64
    }

    /// One item that keeps the queue, as far as is known.
    private struct HoldUp {
        let server: Int32
        var next: UInt64
        let since: UInt64 // milliseconds
        var time: BusyTime
        var busy: UInt64 = 0
        var samples = StallSamples()
        var lastCount: UInt64
        var name: String? // of the thread
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

        func event(at now: UInt64) -> StallEvent {
            StallEvent(
                thread: server, at: now, busy: busy, isComputing: time.isComputing(in: samples.kept),
                samples: samples.kept)
        }
    }

    /// What is to be said.
    struct Report {
        var events: [StallEvent]
        var name: String? // of the thread of the last one
        var isFreeze: Bool
        /// Another item waits for the end of the last one.
        var isAwaited: Bool
    }

    private static let freezeTimes: UInt64 = 40, onceTimes: UInt64 = 2, rowMilliseconds: UInt64 = 10_000
    private static let countMilliseconds: UInt64 = 10, suspectMilliseconds: UInt64 = 50

    init(process: Int, address: UInt64) { (self.process, self.address) = (process, address) }

    /// When it should be looked at again, in milliseconds; nil: at leisure. Often while something may keep it, for short items that follow each other
    /// look like a long one to whoever looks rarely.
    func pause(now: UInt64) -> UInt64? {
        if isOfMain { return nil }
        guard let holdUp, !holdUp.isSaid, now - holdUp.since >= Self.suspectMilliseconds else { return 10 }
        return 1
    }

    // The record of the queue: struct dispatch_lane_s of libdispatch, src/queue_internal.h, the same in Swift 5.5 to 6.3.
    private static let recordBytes = 112
    private enum Place { static let state = 56, number = 64, label = 72, next = 104 }
    private static let label = Array("com.apple.main-thread".utf8)
    private static let serverBits: UInt64 = 0x3fff_ffff

    /// - Returns: nil where there is no such record.
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

    /// It is the main thread's until `dispatchMain()`, which is looked at for itself.
    private func isServed(in state: State) -> Bool {
        state.server != 0 && Int(state.server) != process
    }

    /// - Parameters:
    ///   - state: of the queue now.
    ///   - limit: how long it may be held up, in milliseconds.
    ///   - times: how often within ten seconds it must be, unless it is for long.
    ///   - tick: how much later a stack may be looked at again, in milliseconds.
    ///   - sample: what the thread does; nil where it cannot be stopped.
    mutating func look(
        _ state: State, now: UInt64, unseen: UInt64, limit: UInt64, times: Int, tick: UInt64,
        sample: (Int32) -> StallSample?
    ) -> Report? {
        guard holdUp?.goesOn(in: state) ?? false else {
            let report = conclude(now: now, limit: limit, times: times)
            holdUp = isServed(in: state) ? HoldUp(state, now: now, isLookedAt: rest.isOver) : nil
            isOfMain = Int(state.server) == process
            return report
        }
        guard now - holdUp!.lastCount >= Self.countMilliseconds || unseen > 0,
            let seen = ThreadTimes(of: process, thread: UInt32(bitPattern: state.server))
        else { return nil }
        holdUp!.lastCount = now
        holdUp!.time.count(seen, now: now, unseen: unseen)
        holdUp!.busy = (now - holdUp!.since).subtractingClamped(holdUp!.time.discount)
        let busy = holdUp!.busy
        if holdUp!.samples.next == .max, busy >= 4 * limit { holdUp!.samples.next = now }
        if busy * 2 >= limit, !seen.isStopped, now >= holdUp!.samples.next {
            holdUp!.samples.plan(after: now, tick: tick)
            if holdUp!.name == nil { holdUp!.name = ThreadTimes.name(of: state.server, in: process) }
            if let sample = sample(state.server) { holdUp!.samples.add(sample) }
        }
        if busy >= max(limit * Self.freezeTimes, 2000), !holdUp!.isSaid {
            holdUp!.isSaid = true
            return Report(
                events: [holdUp!.event(at: now)], name: holdUp!.name, isFreeze: true, isAwaited: holdUp!.isAwaited)
        }
        return nil
    }

    /// What it was held up with is known already.
    mutating func restMore() { rest.more() }

    /// The program has ended.
    mutating func finish(now: UInt64, limit: UInt64) -> Report? {
        defer { holdUp = nil }
        guard let holdUp, !holdUp.isSaid, holdUp.busy >= limit else { return nil }
        return Report(
            events: [holdUp.event(at: now)], name: holdUp.name, isFreeze: true, isAwaited: holdUp.isAwaited)
    }

    private mutating func conclude(now: UInt64, limit: UInt64, times: Int) -> Report? {
        guard let holdUp, !holdUp.isSaid, holdUp.busy >= limit else { return nil }
        rest.passes()
        recent.append(holdUp.event(at: now))
        recent.removeAll { now - $0.at > Self.rowMilliseconds }
        guard holdUp.busy >= limit * Self.onceTimes || recent.count >= times else { return nil }
        defer { recent = [] }
        return Report(events: recent, name: holdUp.name, isFreeze: false, isAwaited: holdUp.isAwaited)
    }
}
