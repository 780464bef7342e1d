// Threads that hold up their events: the table of pulses on the page of a run is looked at now and then, and a thread that is busy for long
// is stopped for a moment, again and again, to see with what.

import CSystem
import CUnwind
import CZombie
import Glibc

/// Looks at the threads of a run (zg_stalls.h). Not for several threads: the kernel wants all calls about a stopped thread from one.
package final class StallWatch {
    private let page: RunPage
    /// Who has a pulse, by its place in the table: what stands there may have been written by any process of the run.
    private var owners: [Int: ProcessIdentity] = [:]
    private var tracks: [Int: Track] = [:] // by the place in the table
    private var known: [Known.Key: Known] = [:]
    private var lastKeys: [Known.Thread: Known.Key] = [:]
    private var pools: [Int: PoolWatch] = [:] // by the place in the table
    private var queues: [Int: MainQueueWatch] = [:]
    private var symbolicator = Symbolicator()
    private var computing = ComputingThreads()
    private var late: [Int32] = []
    private var ended: [Int32] = []
    private let child: () -> Int32?
    /// Nobody has said that the program is one that waits for events: threads are looked at that show it (``EventLoop``).
    private let isCautious: Bool
    private var clock: Clock
    private var lastLook: UInt64, lastQueueLook: UInt64

    private static let shortestTick: UInt64 = 10, longestTick: UInt64 = 50
    /// So often as long as `stall_ms`, once is enough; and it counts as a freeze.
    private static let onceTimes: UInt64 = 2, freezeTimes: UInt64 = 40
    private static let rowMilliseconds: UInt64 = 10_000
    private static let stopMicroseconds = 20_000
    private static let mostKnown = 256

    /// `page` is the run's; `isCautious`: stalls were not asked for by name; `child` the process that is waited for elsewhere.
    package init(page: Descriptor, isCautious: Bool, child: @escaping () -> Int32?) throws(SystemError) {
        self.page = try RunPage(page)
        self.isCautious = isCautious
        self.child = child
        clock = Clock()
        lastLook = MonotonicTime.milliseconds
        lastQueueLook = lastLook
    }

    /// Some process wants its threads looked at.
    private var isWanted: Bool {
        zg_system_load(page.place(of: \.pulses.is_wanted)) != 0
    }

    private var limit: UInt64 { UInt64(page.contents.pointee.pulses.stall_ms) } // milliseconds
    private var times: Int { Int(page.contents.pointee.pulses.stall_times) }

    /// How long until the next look, in milliseconds; nil where no thread is to be looked at.
    package var milliseconds: Int32? {
        if !isWanted { return nil }
        let now = MonotonicTime.milliseconds
        return Int32(queues.values.reduce(tick) { min($0, $1.pause(now: now) ?? $0) })
    }

    private var tick: UInt64 { max(Self.shortestTick, min(Self.longestTick, limit / 5)) }

    private func pulse(_ index: Int) -> UnsafeMutablePointer<zg_pulse> { page.place(of: \.pulses.pulses) + index }

    /// Takes note of whose a pulse is.
    package func note(_ message: RunMessage) {
        if case .pulse(let index) = message.content, index < Int(ZG_PULSES) { owners[index] = message.sender }
    }

    /// A pulse is that of the process that has it, as far as its number goes.
    private func isOwn(_ index: Int) -> Bool { owners[index].map { UInt32($0.number) } == pulse(index).pointee.pid }

    // MARK: Looking

    /// Looks at all threads; what is to be said of them.
    package func look() -> [Finding] {
        if !isWanted { return [] }
        var findings = lookAtQueues()
        let now = MonotonicTime.milliseconds
        guard now - lastLook >= tick else { return findings }
        // What passed while nobody looked, because this process did not run either, is nobody's fault.
        let unseen = (now - lastLook).subtractingClamped(3 * tick)
        lastLook = now
        clock.adjust()
        letGo()
        for index in 0..<Int(ZG_PULSES) {
            let pulse = pulse(index)
            let state = isOwn(index) ? zg_system_load(&pulse.pointee.state) : zg_pulse_free.rawValue
            if state == zg_pulse_pool.rawValue {
                lookAtPool(index, pulse, now: now, &findings)
                continue
            }
            if state == zg_pulse_queue.rawValue, let owner = owners[index], queues[index]?.process != owner.number {
                queues[index] = MainQueueWatch(process: owner.number, address: pulse.pointee.queue)
            }
            guard state == zg_pulse_beats.rawValue else {
                if let track = tracks.removeValue(forKey: index), mattersAtEnd(track, index) {
                    findings += conclude(track, index, hasEnded: true)
                }
                continue
            }
            look(index, pulse, now: now, unseen: unseen, &findings)
        }
        return findings
    }

    /// The program has ended: what is to be said of those that were busy until then, and how often what was said already came again.
    ///
    /// - Parameter isByItself: nobody has killed it.
    package func finish(isByItself: Bool) -> [Finding] {
        var findings: [Finding] = []
        for (index, track) in tracks.sorted(by: { $0.key < $1.key }) {
            if !mattersAtEnd(track, index), zg_system_load(&pulse(index).pointee.state) != zg_pulse_beats.rawValue {
                continue
            }
            if !mattersAtEnd(track, index), isByItself, track.process == child().map({ Int($0) }) { continue }
            findings += conclude(track, index, hasEnded: true)
        }
        tracks = [:]
        for (index, pool) in pools.sorted(by: { $0.key < $1.key }) {
            for blocked in pool.blocked(now: MonotonicTime.milliseconds, limit: limit) {
                findings += say(blocked, in: pool.process, isFreeze: true)
            }
            pools[index] = nil
        }
        for index in queues.keys.sorted() { findings += endQueue(index, now: MonotonicTime.milliseconds) }
        for key in known.keys where known[key]!.unsaid > 0 { findings.append(known[key]!.again()) }
        return findings
    }

    private func look(
        _ index: Int, _ pulse: UnsafeMutablePointer<zg_pulse>, now: UInt64, unseen: UInt64, _ findings: inout [Finding]
    ) {
        let since = zg_system_load_long(&pulse.pointee.busy_since)
        if let track = tracks[index], track.nonce != pulse.pointee.nonce || track.thread != pulse.pointee.tid {
            findings += conclude(track, index, hasEnded: true)
            tracks[index] = nil
        }
        if let track = tracks[index], track.since != 0, since != track.since {
            findings += conclude(track, index, hasEnded: false)
            zg_system_store(&pulse.pointee.watched, 0)
        }
        if tracks[index] == nil, let owner = owners[index] { tracks[index] = Track(pulse.pointee, of: owner.number) }
        guard since != 0 else {
            if isCautious, tracks[index]!.since == 0 {
                tracks[index]!.loop.waits(pulse.pointee.tid, of: tracks[index]!.process, now: now)
            }
            tracks[index]!.since = 0
            if now &- tracks[index]!.lastAlive > 1000, since == 0 {
                tracks[index]!.lastAlive = now
                if !isAlive(index) { release(index, pulse) }
            }
            return
        }
        let age = clock.milliseconds(since: since)
        if tracks[index]!.since != since {
            tracks[index]!.begin(since, now: now)
            tracks[index]!.time.discount = min(unseen, age)
            // So that what it waits for a processor until the next look is known.
            if let times = ThreadTimes(of: tracks[index]!.process, thread: tracks[index]!.thread) {
                tracks[index]!.time.count(times, now: now, unseen: 0)
            }
            return
        }
        guard let times = ThreadTimes(of: tracks[index]!.process, thread: tracks[index]!.thread) else {
            // The process has gone, or its memory is another program's by now.
            let track = tracks[index]!
            findings += conclude(track, index, hasEnded: true)
            release(index, pulse)
            return
        }
        if tracks[index]!.busy * 2 >= limit,
            SystemCall(of: tracks[index]!.process, thread: tracks[index]!.thread)?.waitsForStrangers ?? false
        {
            tracks[index]!.time.leaveOut(until: now)
            return
        }
        tracks[index]!.time.count(times, now: now, unseen: unseen)
        let busy = age.subtractingClamped(tracks[index]!.time.discount)
        tracks[index]!.busy = busy
        if busy * 2 < limit || times.isStopped { return }
        if tracks[index]!.isLoop == nil {
            tracks[index]!.isLoop =
                isCautious
                ? tracks[index]!.loop.isOne(pulse.pointee, in: tracks[index]!.process, busyFor: age)
                : hasWaited(tracks[index]!, index)
        }
        if tracks[index]!.isLoop == false { return }
        zg_system_store(&pulse.pointee.watched, UInt32(truncatingIfNeeded: since))
        if tracks[index]!.samples.next == .max, busy >= 4 * limit { tracks[index]!.samples.next = now }
        if now >= tracks[index]!.samples.next { sample(index, pulse, since, now) }
        if busy >= max(limit * Self.freezeTimes, 2000), !tracks[index]!.isSaid {
            tracks[index]!.isSaid = true
            findings += say(tracks[index]!, [tracks[index]!.event(lasting: busy)], isFreeze: true)
        }
    }

    private static func program(of process: Int) -> String? { readLink("/proc/\(process)/exe") }

    private func isAlive(_ index: Int) -> Bool { owners[index]?.isCurrent ?? false }

    /// Whoever waits once is no loop of events, except a server: some take one request after the other before they wait again.
    private func hasWaited(_ track: Track, _ index: Int) -> Bool {
        pulse(index).pointee.calls >= UInt8(ZG_PULSE_WAITS) || EventLoop.listens(process: track.process)
    }

    /// Where its program came to its end by itself: others may have waited for it then, or it had gone on before.
    private func mattersAtEnd(_ track: Track, _ index: Int) -> Bool {
        let pulse = pulse(index)
        return !isCautious || track.loop.listens
            || pulse.pointee.nonce == track.nonce && pulse.pointee.tid == track.thread
                && zg_system_load_long(&pulse.pointee.busy_since) != track.since
    }

    private func release(_ index: Int, _ pulse: UnsafeMutablePointer<zg_pulse>) {
        tracks[index] = nil
        zg_system_store(&pulse.pointee.state, zg_pulse_free.rawValue)
    }

    private func letGo() {
        late.removeAll { thread in
            var signal: Int32 = 0
            let result = zg_thread_has_stopped(thread, &signal)
            if result > 0 { _ = zg_thread_let_go(thread, signal) }
            return result != 0
        }
        ended.removeAll { zg_thread_bury($0) != 0 }
    }

    // MARK: The pool

    private func lookAtPool(
        _ index: Int, _ pulse: UnsafeMutablePointer<zg_pulse>, now: UInt64, _ findings: inout [Finding]
    ) {
        guard let process = owners[index]?.number else { return }
        if pools[index]?.process != process { pools[index] = PoolWatch(process: process) }
        guard let memory = memory(index) else {
            for blocked in pools[index]!.blocked(now: now, limit: limit) {
                findings += say(blocked, in: process, isFreeze: true)
            }
            pools[index] = nil
            if !isAlive(index) { zg_system_store(&pulse.pointee.state, zg_pulse_free.rawValue) }
            return
        }
        let over = pools[index]!.look(
            now: now, limit: limit,
            sample: { thread, call in sample(thread, of: process, in: call, holder: nil, memory) },
            name: { (frame: Finding.Frame) -> String? in symbolicator.symbolicate([frame]).last?.function })
        for one in over { findings += say(one, in: process, isFreeze: false) }
    }

    private func say(
        _ blocked: (thread: Int32, name: String?, event: StallEvent), in process: Int, isFreeze: Bool
    ) -> [Finding] {
        let number = Int(blocked.thread)
        let finding = Finding(
            stalls: [blocked.event], isFreeze: isFreeze, thread: Finding.Thread(id: number, name: blocked.name),
            processID: process, program: Self.program(of: process))
        guard var finding else { return [] }
        finding.detail["pool"] = "tasks of Swift run on this thread, and there are no more of these than processors"
        // Whichever thread of the pool it was.
        return tell(finding, of: Known.Thread(process: process, number: -1)).findings
    }

    // MARK: The main queue

    private func lookAtQueues() -> [Finding] {
        let now = MonotonicTime.milliseconds
        let unseen = (now - lastQueueLook).subtractingClamped(3 * tick)
        lastQueueLook = now
        var findings: [Finding] = []
        for (index, queue) in queues {
            let pulse = pulse(index)
            guard isOwn(index), zg_system_load(&pulse.pointee.state) == zg_pulse_queue.rawValue,
                owners[index]?.number == queue.process, let memory = memory(index),
                let state = MainQueueWatch.state(at: queue.address, in: memory)
            else {
                findings += endQueue(index, now: now)
                if !isAlive(index) { zg_system_store(&pulse.pointee.state, zg_pulse_free.rawValue) }
                continue
            }
            let process = queue.process
            let report = queues[index]!.look(
                state, now: now, unseen: unseen, limit: limit, times: times, tick: tick,
                sample: { thread in
                    let call = SystemCall(of: process, thread: UInt32(bitPattern: thread))
                    let holder = call?.holder(for: UInt32(bitPattern: thread), of: process) {
                        memory.record(UInt32.self, at: $0)
                    }
                    return sample(thread, of: process, in: call, holder: holder, memory)
                })
            if let report { findings += say(report, index) }
        }
        return findings
    }

    /// A part of a task, as far as is known.
    private func isOfTask(_ event: StallEvent) -> Bool {
        let frames = event.samples.flatMap(\.stack)
        return frames.isEmpty
            || frames.contains { frame in
                symbolicator.symbolicate([frame]).contains { $0.function.map(PoolWatch.runsJobs) ?? false }
            }
    }

    private func endQueue(_ index: Int, now: UInt64) -> [Finding] {
        defer { queues[index] = nil }
        return queues[index]!.finish(now: now, limit: limit).map { say($0, index) } ?? []
    }

    private func say(_ report: MainQueueWatch.Report, _ index: Int) -> [Finding] {
        // The task that an asynchronous main is: what does one thing after the other holds up nobody but itself.
        if isCautious, !report.isAwaited, report.events.last.map(isOfTask) ?? true { return [] }
        let process = queues[index]!.process
        let server = report.events.last?.thread ?? 0
        let finding = Finding(
            stalls: report.events, isFreeze: report.isFreeze,
            thread: Finding.Thread(
                id: number(of: server, in: process) ?? Int(server), name: report.name),
            processID: process, program: Self.program(of: process))
        guard var finding else { return [] }
        finding.detail["queue"] = "com.apple.main-thread"
        // Whichever thread served it.
        let told = tell(finding, of: Known.Thread(process: process, number: 0))
        if !told.isNew { queues[index]!.restMore() }
        return told.findings
    }

    /// The process's memory; nil where it is no more, or another program's by now.
    private func memory(_ index: Int) -> ProcessMemory? {
        let pulse = pulse(index).pointee
        guard let owner = owners[index], owner.isCurrent, let memory = try? ProcessMemory(processID: owner.number),
            memory.record(UInt64.self, at: pulse.place) == pulse.nonce
        else { return nil }
        return memory
    }

    /// What a thread does; nil where it cannot be stopped.
    private func sample(
        _ thread: Int32, of process: Int, in call: SystemCall?, holder: Int32?, _ memory: ProcessMemory
    ) -> StallSample? {
        let wanted = [thread] + (holder.map { [$0] } ?? [])
        let stopped = try? StoppedThreads(
            only: wanted, computing: computing(wanted, of: process), of: process, memory: memory,
            microseconds: Self.stopMicroseconds)
        let seen = stopped.map { sample(thread, of: process, in: call, $0, memory) }
        return seen.flatMap { $0.stack.isEmpty ? nil : $0 }
    }

    private func computing(_ threads: [Int32], of process: Int) -> Set<Int32> {
        Set(threads.filter { computing.computes($0, of: process) })
    }

    // MARK: What it does

    private func sample(_ index: Int, _ pulse: UnsafeMutablePointer<zg_pulse>, _ since: UInt64, _ now: UInt64) {
        tracks[index]!.samples.plan(after: now, tick: tick)
        let track = tracks[index]!
        guard let owner = owners[index], owner.number == track.process, owner.isCurrent,
            let memory = try? ProcessMemory(processID: track.process)
        else { return }
        let nonce: UInt64? = memory.record(UInt64.self, at: pulse.pointee.place)
        guard nonce == track.nonce else {
            tracks[index]!.obstacle = "it is in another PID namespace"
            return
        }
        let call = SystemCall(of: track.process, thread: track.thread)
        let holder = call?.holder(for: track.thread, of: track.process) {
            memory.record(UInt32.self, at: $0)
        }
        let wanted = [Int32(truncatingIfNeeded: track.thread)] + (holder.map { [$0] } ?? [])
        let computing = computing(wanted, of: track.process)
        // The thread does not begin to wait between this and that (threads/pulse.c).
        _ = zg_system_exchange(&pulse.pointee.is_sampled, 1)
        defer {
            zg_system_store(&pulse.pointee.is_sampled, 0)
            _ = zg_system_futex_wake(&pulse.pointee.is_sampled)
        }
        guard zg_system_load_long(&pulse.pointee.busy_since) == since else { return }
        do throws(StoppedThreads.Refusal) {
            let stopped = try StoppedThreads(
                only: wanted, computing: computing, of: track.process, memory: memory,
                microseconds: Self.stopMicroseconds)
            zg_system_store(&pulse.pointee.is_sampled, 0)
            _ = zg_system_futex_wake(&pulse.pointee.is_sampled)
            keep(stopped, index, call, holder, memory)
        } catch {
            tracks[index]!.obstacle =
                switch error {
                case .traced: "a debugger traces the program"
                case .refused(let error): "the kernel refuses ptrace (\(error))"
                }
        }
    }

    private func keep(
        _ stopped: StoppedThreads, _ index: Int, _ call: SystemCall?, _ holder: Int32?, _ memory: ProcessMemory
    ) {
        let track = tracks[index]!
        if let obstacle = StackUnwinder.obstacle { tracks[index]!.obstacle = obstacle }
        let sample = sample(Int32(truncatingIfNeeded: track.thread), of: track.process, in: call, stopped, memory)
        if !sample.stack.isEmpty { tracks[index]!.samples.add(sample) }
    }

    private func sample(
        _ thread: Int32, of process: Int, in call: SystemCall?, _ stopped: StoppedThreads, _ memory: ProcessMemory
    ) -> StallSample {
        late += stopped.late
        ended += stopped.ended.filter { $0 != child() }
        let unwinder = StackUnwinder(
            mappings: (try? Mapping.all(of: process)) ?? [],
            memory: CopiedMemory(copies: stopped.stacks, memory: memory))
        var sample = StallSample(call: call?.name)
        for one in stopped.threads {
            let stack = unwinder.stack(from: one.registers, known: one.known)
            if one.id == thread {
                sample.stack = stack
            } else {
                sample.holder = Finding.ThreadStack(
                    id: number(of: one.id, in: process), threadID: Int(one.id), name: one.name, stack: stack)
            }
        }
        // The process has ended meanwhile: what was not copied could not be read any more.
        if let place = stopped.threads.first?.registers[Int(ZG_THREAD_PC)], memory.read(at: place, upTo: 1).isEmpty {
            return StallSample(call: nil)
        }
        return sample
    }

    // The runtime's number of a thread, as far as it has a pulse.
    private func number(of thread: Int32, in process: Int) -> Int? {
        if Int(thread) == process { return 1 }
        for index in 0..<Int(ZG_PULSES) where pulse(index).pointee.tid == UInt32(bitPattern: thread) {
            return Int(pulse(index).pointee.number)
        }
        return nil
    }

    // MARK: What is said

    private func conclude(_ track: Track, _ index: Int, hasEnded: Bool) -> [Finding] {
        defer { tracks[index]?.since = 0 }
        // Most times are over long before the limit: whether the thread is a loop, which takes reading /proc, is not asked then.
        guard track.since != 0, clock.milliseconds(since: track.since) >= limit,
            track.isLoop ?? (!isCautious && hasWaited(track, index))
        else { return [] }
        var track = track
        // What it has waited for a processor since the last look.
        if !hasEnded, let times = ThreadTimes(of: track.process, thread: track.thread) {
            track.time.count(times, now: MonotonicTime.milliseconds, unseen: 0)
        }
        var busy = track.busy
        let pulse = pulse(index)
        let until = zg_system_load_long(&pulse.pointee.busy_until)
        // The thread may have gone on, and come to its end, before anybody looked again.
        let isOver =
            !hasEnded
            || pulse.pointee.nonce == track.nonce && pulse.pointee.tid == track.thread
                && zg_system_load_long(&pulse.pointee.busy_since) != track.since
        if isOver, until > track.since {
            busy = clock.milliseconds(from: track.since, to: until).subtractingClamped(track.time.discount)
        }
        if busy < limit || track.isSaid || track.wasNeverSeen { return [] }
        let now = MonotonicTime.milliseconds
        track.recent.append(track.event(lasting: busy))
        track.recent.removeAll { now &- $0.at > Self.rowMilliseconds }
        let isFreeze = !isOver
        if busy < limit * Self.onceTimes, track.recent.count < times {
            tracks[index]?.recent = track.recent
            return []
        }
        tracks[index]?.recent = []
        return say(track, track.recent, isFreeze: isFreeze)
    }

    /// A finding of these events; none where it was said before, until it has come twice as often.
    private func say(_ track: Track, _ events: [StallEvent], isFreeze: Bool) -> [Finding] {
        guard
            var finding = Finding(
                stalls: events, isFreeze: isFreeze, thread: Finding.Thread(id: track.number, name: track.name),
                processID: track.process, program: track.program)
        else { return [] }
        let hasSamples = finding.stall?.sampled.isEmpty == false
        if let obstacle = track.obstacle, !hasSamples { finding.detail["samples"] = "none: \(obstacle)" }
        let told = tell(finding, of: Known.Thread(process: track.process, number: track.number))
        if !told.isNew, let index = tracks.first(where: { $0.value.thread == track.thread })?.key {
            tracks[index]!.restMore()
        }
        return told.findings
    }

    private func tell(_ raw: Finding, of thread: Known.Thread) -> (isNew: Bool, findings: [Finding]) {
        var finding = raw
        // The process has chosen what it has mapped, and whose debug information names which files.
        if geteuid() == 0 { finding.author = Author(of: try? ProcessFolder(of: thread.process)) }
        var key = Known.Key(
            thread: thread, place: finding.stacks.access.first?.pc, depth: finding.stacks.access.count)
        // While it is not looked at it does what it did before.
        if finding.stall?.sampled.isEmpty != false, let last = lastKeys[thread] { key = last }
        lastKeys[thread] = key
        if known[key] == nil, known.count < Self.mostKnown {
            known[key] = Known(finding: finding)
            return (true, [finding])
        }
        known[key]?.count(finding)
        if let again = known[key], again.isDue { return (false, [known[key]!.again()]) }
        return (false, [])
    }
}

// MARK: - What is remembered

extension StallWatch {
    private struct Clock {
        private let firstTicks = zg_system_ticks(), firstTime = MonotonicTime.nanoseconds
        private var perMillisecond = 1_000_000.0

        mutating func adjust() {
            let passed = Double(MonotonicTime.nanoseconds - firstTime) / 1e6
            if passed > 1 { perMillisecond = Double(zg_system_ticks() &- firstTicks) / passed }
        }

        func milliseconds(from start: UInt64, to end: UInt64) -> UInt64 {
            end > start ? UInt64(Double(end - start) / max(perMillisecond, 1)) : 0
        }

        func milliseconds(since start: UInt64) -> UInt64 { milliseconds(from: start, to: zg_system_ticks()) }
    }

    private struct Track {
        let process: Int, thread: UInt32, number: Int, nonce: UInt64
        let program: String?
        var name: String?
        var since: UInt64 = 0 // ticks, 0: it is not busy, as far as is known
        var busy: UInt64 = 0
        var time = BusyTime(now: 0)
        var loop = EventLoop()
        /// For this time that it is busy; nil: it was not asked yet.
        var isLoop: Bool?
        var lastAlive: UInt64 = 0
        var samples = StallSamples()
        var recent: [StallEvent] = []
        var obstacle: String?
        var isSaid = false
        private(set) var rest = StallRest()

        init(_ pulse: zg_pulse, of process: Int) {
            self.process = process
            thread = pulse.tid
            number = Int(pulse.number)
            nonce = pulse.nonce
            program = StallWatch.program(of: process)
        }

        mutating func begin(_ since: UInt64, now: UInt64) {
            if name == nil { name = ThreadTimes.name(of: Int32(truncatingIfNeeded: thread), in: process) }
            self.since = since
            (busy, time, isSaid, isLoop) = (0, BusyTime(now: now), false, nil)
            samples = StallSamples(next: rest.isOver ? 0 : .max)
            rest.passes()
        }

        mutating func restMore() { rest.more() }

        /// Nobody has found it at anything, however often it was due: it was not running, and who looks was not either.
        var wasNeverSeen: Bool { samples.kept.isEmpty && samples.next != .max && obstacle == nil }

        func event(lasting busy: UInt64) -> StallEvent {
            StallEvent(
                at: MonotonicTime.milliseconds, busy: busy, isComputing: time.isComputing(in: samples.kept),
                samples: samples.kept)
        }
    }

    /// A finding that was said, and what came of the same since then.
    private struct Known {
        struct Thread: Hashable {
            var process, number: Int
        }

        struct Key: Hashable {
            var thread: Thread
            var place: Address?
            var depth: Int
        }

        var finding: Finding
        var said = 1, unsaid = 0
        private var longest = 0, occurrences = 0

        init(finding: Finding) { self.finding = finding }

        var isDue: Bool { unsaid >= said }

        mutating func count(_ other: Finding) {
            unsaid += 1
            longest = max(longest, other.stall?.durationMs ?? 0)
            occurrences += other.stall?.occurrences ?? 1
        }

        mutating func again() -> Finding {
            var again = finding
            again.count = unsaid
            again.time = Timestamp.now.description
            again.stall?.durationMs = longest
            again.stall?.occurrences = occurrences
            again.stall?.samples = 0
            said += unsaid
            (unsaid, longest, occurrences) = (0, 0, 0)
            return again
        }
    }
}
