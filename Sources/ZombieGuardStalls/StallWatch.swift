// Detects threads that stall their event loops. Polls the heartbeats on the run's shared page, and samples the stack of
// a thread that is busy for long.

import CSystem
import CUnwind
import CZombie
import Glibc
import ZombieGuard

/// Watches the threads of a run (zg_stalls.h). Use from one thread only: ptrace accepts requests for a stopped thread
/// from its tracer only.
package final class StallWatch {
    private let page: RunPage
    /// Owner of each heartbeat, by index in the table. Any process of the run can write to the table, so its contents
    /// prove no ownership.
    private var owners: [Int: ProcessIdentity] = [:]
    private var tracks: [Int: ThreadWatch] = [:] // by index in the table
    private var known: [ReportedFinding.Key: ReportedFinding] = [:]
    private var lastKeys: [ReportedFinding.Thread: ReportedFinding.Key] = [:]
    private var pools: [Int: PoolWatch] = [:] // by index in the table
    private var queues: [Int: MainQueueWatch] = [:]
    private var symbolicator = Symbolicator()
    private var computing = ComputingThreads()
    private var maps = PerfMaps()
    private var left = LeftThreads()
    private let child: () -> Int32?
    /// True if the user did not ask for stalls: then only threads that behave like event loops are watched
    /// (``EventLoop``).
    private let isDefault: Bool
    private var clock: Clock
    private var lastLook: UInt64, lastQueueLook: UInt64

    private static let shortestTick: UInt64 = 10, longestTick: UInt64 = 50
    /// `stall_ms` times the first factor: duration at which a single stall is reported. `stall_ms` times the second,
    /// but at least 2000 ms: duration at which a stall is a freeze.
    private static let singleFactor: UInt64 = 2, freezeFactor: UInt64 = 40
    private static let stopMicroseconds = 20_000
    private static let mostKnown = 256

    /// `page` is the run's shared page. `isDefault`: the user did not ask for stalls by name. `child` returns the ID
    /// of the child process that another part of zguard waits for.
    package init(page: Descriptor, isDefault: Bool, child: @escaping () -> Int32?) throws(SystemError) {
        self.page = try RunPage(page)
        self.isDefault = isDefault
        self.child = child
        clock = Clock()
        lastLook = MonotonicTime.milliseconds
        lastQueueLook = lastLook
    }

    /// Whether any process of the run asks to be watched.
    private var isWanted: Bool {
        zg_system_load(page.place(of: \.heartbeats.is_wanted)) != 0
    }

    private var limit: UInt64 { UInt64(page.contents.pointee.heartbeats.stall_ms) } // milliseconds
    private var times: Int { Int(page.contents.pointee.heartbeats.stall_times) }

    /// Time until the next poll, in milliseconds; nil if no process asks to be watched.
    package var milliseconds: Int32? {
        if !isWanted { return nil }
        let now = MonotonicTime.milliseconds
        return Int32(queues.values.reduce(tick) { min($0, $1.pause(now: now) ?? $0) })
    }

    private var tick: UInt64 { max(Self.shortestTick, min(Self.longestTick, limit / 5)) }

    private func heartbeat(_ index: Int) -> UnsafeMutablePointer<zg_heartbeat> {
        page.place(of: \.heartbeats.heartbeats) + index
    }

    /// Records the sender of a message as the owner of its heartbeat.
    package func note(_ message: RunMessage) {
        if case .heartbeat(let index) = message.content, index < Int(ZG_HEARTBEATS) { owners[index] = message.sender }
    }

    /// Whether the process ID in the heartbeat is that of its owner.
    private func isOwn(_ index: Int) -> Bool { owners[index].map { UInt32($0.number) } == heartbeat(index).pointee.pid }

    // MARK: Polling

    /// Polls all threads and returns findings to report.
    package func look() -> [Finding] {
        if !isWanted { return [] }
        var findings = lookAtQueues()
        let now = MonotonicTime.milliseconds
        guard now - lastLook >= tick else { return findings }
        // Discount the time in which zguard itself did not run: the threads may have been suspended, too.
        let unseen = (now - lastLook).subtractingClamped(3 * tick)
        lastLook = now
        clock.adjust()
        left.clean()
        for index in 0..<Int(ZG_HEARTBEATS) {
            let heartbeat = heartbeat(index)
            let state = isOwn(index) ? zg_system_load(&heartbeat.pointee.state) : zg_heartbeat_free.rawValue
            if state == zg_heartbeat_pool.rawValue {
                lookAtPool(index, heartbeat, now: now, &findings)
                continue
            }
            if state == zg_heartbeat_queue.rawValue, let owner = owners[index], queues[index]?.process != owner.number {
                queues[index] = MainQueueWatch(process: owner.number, address: heartbeat.pointee.queue)
            }
            guard state == zg_heartbeat_beats.rawValue else {
                if let track = tracks.removeValue(forKey: index), isStallAtExit(track, index) {
                    findings += conclude(track, index, hasEnded: true)
                }
                continue
            }
            look(index, heartbeat, now: now, unseen: unseen, &findings)
        }
        return findings
    }

    /// Call when the program has ended. Returns findings for stalls in progress, and the repeat counts of earlier
    /// findings.
    ///
    /// - Parameter isByItself: false if the program was killed.
    package func finish(isByItself: Bool) -> [Finding] {
        var findings: [Finding] = []
        for (index, track) in tracks.sorted(by: { $0.key < $1.key }) {
            if !isStallAtExit(track, index),
                zg_system_load(&heartbeat(index).pointee.state) != zg_heartbeat_beats.rawValue
            {
                continue
            }
            if !isStallAtExit(track, index), isByItself, track.process == child().map({ Int($0) }) { continue }
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
        for key in known.keys where known[key]!.unreported > 0 { findings.append(known[key]!.again()) }
        return findings
    }

    private func look(
        _ index: Int, _ heartbeat: UnsafeMutablePointer<zg_heartbeat>, now: UInt64, unseen: UInt64,
        _ findings: inout [Finding]
    ) {
        let since = zg_system_load_long(&heartbeat.pointee.busy_since)
        if let track = tracks[index], track.nonce != heartbeat.pointee.nonce || track.thread != heartbeat.pointee.tid {
            findings += conclude(track, index, hasEnded: true)
            tracks[index] = nil
        }
        if let track = tracks[index], track.since != 0, since != track.since {
            findings += conclude(track, index, hasEnded: false)
            zg_system_store(&heartbeat.pointee.watched, 0)
        }
        if tracks[index] == nil, let owner = owners[index] {
            tracks[index] = ThreadWatch(heartbeat.pointee, of: owner.number)
        }
        guard since != 0 else {
            if isDefault, tracks[index]!.since == 0 {
                tracks[index]!.loop.waits(heartbeat.pointee.tid, of: tracks[index]!.process, now: now)
            }
            tracks[index]!.since = 0
            if now &- tracks[index]!.lastAlive > 1000, since == 0 {
                tracks[index]!.lastAlive = now
                if !isAlive(index) { release(index, heartbeat) }
            }
            return
        }
        let age = clock.milliseconds(since: since)
        if tracks[index]!.since != since {
            tracks[index]!.begin(since, now: now)
            tracks[index]!.time.leaveOut(min(unseen, age))
            // First reading of the thread's times: the next poll counts only the time since this reading.
            if let times = ThreadTimes(of: tracks[index]!.process, thread: tracks[index]!.thread) {
                tracks[index]!.time.count(times, now: now, unseen: 0)
            }
            return
        }
        guard let times = ThreadTimes(of: tracks[index]!.process, thread: tracks[index]!.thread) else {
            // The thread has ended, perhaps because its process has ended or executed another program.
            let track = tracks[index]!
            findings += conclude(track, index, hasEnded: true)
            release(index, heartbeat)
            return
        }
        let call =
            tracks[index]!.busy * 2 >= limit
            ? SystemCall(of: tracks[index]!.process, thread: tracks[index]!.thread) : nil
        if call?.waitsForStrangers ?? false {
            tracks[index]!.time.leaveOut(until: now)
            return
        }
        tracks[index]!.time.count(times, now: now, unseen: unseen)
        tracks[index]!.felt = age.subtractingClamped(tracks[index]!.time.unfelt)
        let busy = tracks[index]!.time.weight(of: tracks[index]!.felt, limit: limit)
        tracks[index]!.busy = busy
        if busy * 2 < limit || times.isStopped { return }
        if tracks[index]!.isLoop == nil {
            tracks[index]!.isLoop =
                isDefault
                ? tracks[index]!.loop.isOne(heartbeat.pointee, in: tracks[index]!.process, busyFor: age)
                : hasWaited(tracks[index]!, index)
        }
        // Report a deadlock even if the thread runs no event loop.
        if tracks[index]!.isLoop == false, busy < limit || !isClosed(call, tracks[index]!, index) { return }
        zg_system_store(&heartbeat.pointee.watched, UInt32(truncatingIfNeeded: since))
        if tracks[index]!.samples.next == .max, busy >= 4 * limit { tracks[index]!.samples.next = now }
        if now >= tracks[index]!.samples.next { sample(index, heartbeat, since, now) }
        let isDeadlock = busy >= limit && tracks[index]!.samples.kept.closed != nil
        if isDeadlock || busy >= max(limit * Self.freezeFactor, 2000), !tracks[index]!.isSaid {
            tracks[index]!.isSaid = true
            findings += say(tracks[index]!, [tracks[index]!.event], isFreeze: true)
        }
    }

    private func isClosed(_ call: SystemCall?, _ track: ThreadWatch, _ index: Int) -> Bool {
        guard call?.isFutex ?? false, let memory = memory(index) else { return false }
        return deadlock(from: Int32(truncatingIfNeeded: track.thread), of: track.process, memory) != nil
    }

    /// The deadlock that a thread waits in: a chain of threads, each of which waits for the next. Returns nil if a
    /// thread of the chain can go on, or if one of the waits only resembles a wait in glibc.
    private func deadlock(from thread: Int32, of process: Int, _ memory: ProcessMemory) -> WaitChain? {
        let chain = WaitChain(from: thread, of: process, in: WaitMemory { memory.read(at: $0, upTo: $1) })
        guard chain.isClosed, let mappings = try? Mapping.all(of: process),
            chain.isOfGlibc(
                mappings, memory: memory, function: { symbolicator.symbolicate([$0]).last?.function })
        else { return nil }
        return chain
    }

    /// The program's name as in other findings of the process, from its statistics page. The page limits the length of
    /// a name: a longer name is read from /proc.
    private static func program(of process: Int) -> String? {
        let name = (try? GuardedProcess(processID: process).statistics())?.program ?? ""
        return name.isEmpty || name.utf8.count >= longestProgram ? readLink("/proc/\(process)/exe") : name
    }

    private static let longestProgram = 255

    private func isAlive(_ index: Int) -> Bool { owners[index]?.isCurrent ?? false }

    /// Whether the thread has waited often enough for an event loop. A single wait does not prove an event loop, except
    /// in a process that listens on a socket: some servers handle many requests before they wait again.
    private func hasWaited(_ track: ThreadWatch, _ index: Int) -> Bool {
        heartbeat(index).pointee.calls >= UInt8(ZG_HEARTBEAT_WAITS) || EventLoop.listens(process: track.process)
    }

    /// Whether a stall matters although the program ended by itself: the user asked for stalls, clients may have
    /// waited, or the busy time ended before the exit.
    private func isStallAtExit(_ track: ThreadWatch, _ index: Int) -> Bool {
        let heartbeat = heartbeat(index)
        return !isDefault || track.loop.listens
            || heartbeat.pointee.nonce == track.nonce && heartbeat.pointee.tid == track.thread
                && zg_system_load_long(&heartbeat.pointee.busy_since) != track.since
    }

    private func release(_ index: Int, _ heartbeat: UnsafeMutablePointer<zg_heartbeat>) {
        tracks[index] = nil
        zg_system_store(&heartbeat.pointee.state, zg_heartbeat_free.rawValue)
    }

    // MARK: Swift's cooperative pool

    private func lookAtPool(
        _ index: Int, _ heartbeat: UnsafeMutablePointer<zg_heartbeat>, now: UInt64, _ findings: inout [Finding]
    ) {
        guard let process = owners[index]?.number else { return }
        if pools[index]?.process != process { pools[index] = PoolWatch(process: process) }
        guard let memory = memory(index) else {
            for blocked in pools[index]!.blocked(now: now, limit: limit) {
                findings += say(blocked, in: process, isFreeze: true)
            }
            pools[index] = nil
            if !isAlive(index) { zg_system_store(&heartbeat.pointee.state, zg_heartbeat_free.rawValue) }
            return
        }
        let over = pools[index]!.look(
            now: now, limit: limit,
            sample: { thread, call in sample(thread, of: process, in: call, memory) },
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
        finding.detail["pool"] = "the thread belongs to Swift's cooperative pool, which has one thread per processor"
        // Number -1 stands for all threads of the pool, so that repeats on different threads are counted together.
        return tell(finding, of: ReportedFinding.Thread(process: process, number: -1)).findings
    }

    // MARK: The main queue

    private func lookAtQueues() -> [Finding] {
        let now = MonotonicTime.milliseconds
        let unseen = (now - lastQueueLook).subtractingClamped(3 * tick)
        lastQueueLook = now
        var findings: [Finding] = []
        for (index, queue) in queues {
            let heartbeat = heartbeat(index)
            guard isOwn(index), zg_system_load(&heartbeat.pointee.state) == zg_heartbeat_queue.rawValue,
                owners[index]?.number == queue.process, let memory = memory(index),
                let state = MainQueueWatch.state(at: queue.address, in: memory)
            else {
                findings += endQueue(index, now: now)
                if !isAlive(index) { zg_system_store(&heartbeat.pointee.state, zg_heartbeat_free.rawValue) }
                continue
            }
            let process = queue.process
            let report = queues[index]!.look(
                state, .init(now: now, unseen: unseen, limit: limit, times: times, tick: tick),
                sample: { thread in
                    let call = SystemCall(of: process, thread: UInt32(bitPattern: thread))
                    return sample(thread, of: process, in: call, memory)
                })
            if let report { findings += say(report, index) }
        }
        return findings
    }

    /// Whether the event ran a job of a Swift task; true if the event has no samples.
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
        // Do not report the task of an asynchronous main if no item is pending: the task works through a sequence of
        // steps, and nothing waits for it.
        if isDefault, !report.isAwaited, report.events.last.map(isOfTask) ?? true { return [] }
        let process = queues[index]!.process
        let server = report.events.last?.thread ?? 0
        let finding = Finding(
            stalls: report.events, isFreeze: report.isFreeze,
            thread: Finding.Thread(
                id: number(of: server, in: process) ?? Int(server), name: report.name),
            processID: process, program: Self.program(of: process))
        guard var finding else { return [] }
        finding.detail["queue"] = "com.apple.main-thread"
        // Number 0 stands for all threads that serve the queue, so that repeats on different threads are counted
        // together.
        let told = tell(finding, of: ReportedFinding.Thread(process: process, number: 0))
        if !told.isNew { queues[index]!.restMore() }
        return told.findings
    }

    /// Memory of the process; nil if the process has ended or executed another program.
    private func memory(_ index: Int) -> ProcessMemory? {
        let heartbeat = heartbeat(index).pointee
        guard let owner = owners[index], owner.isCurrent, let memory = try? ProcessMemory(processID: owner.number),
            memory.record(UInt64.self, at: heartbeat.place) == heartbeat.nonce
        else { return nil }
        return memory
    }

    /// Samples a thread; nil if the thread cannot be stopped or its stack cannot be read.
    private func sample(
        _ thread: Int32, of process: Int, in call: SystemCall?, _ memory: ProcessMemory
    ) -> StallSample? {
        let waited = waited(by: thread, of: process, in: call, memory)
        let wanted = [thread] + waited.threads
        let mappings = (try? Mapping.all(of: process)) ?? []
        var calls = InterpretedCalls(process: process, mappings: mappings, memory: memory)
        let stopped = try? StoppedThreads(
            only: wanted, computing: computing(wanted, of: process), of: process, memory: memory,
            microseconds: Self.stopMicroseconds, whileStopped: { calls.look(at: $0) })
        let seen = stopped.map {
            sample(thread, of: process, in: call, waited, Stop(threads: $0, mappings: mappings, calls: calls), memory)
        }
        return seen.flatMap { $0.stack.isEmpty ? nil : $0 }
    }

    /// The threads that a thread waits for: those of a deadlock, or the holder of the lock that the thread waits for.
    private struct Waited {
        var threads: [Int32]
        /// The waits of a deadlock; nil if there is none.
        var chain: WaitChain?
    }

    private func waited(by thread: Int32, of process: Int, in call: SystemCall?, _ memory: ProcessMemory) -> Waited {
        if call?.isFutex ?? false, let chain = deadlock(from: thread, of: process, memory) {
            return Waited(threads: Array(chain.threads.dropFirst()), chain: chain)
        }
        let holder = call?.holder(for: UInt32(bitPattern: thread), of: process) {
            memory.record(UInt32.self, at: $0)
        }
        return Waited(threads: holder.map { [$0] } ?? [])
    }

    private func computing(_ threads: [Int32], of process: Int) -> Set<Int32> {
        Set(threads.filter { computing.computes($0, of: process) })
    }

    // MARK: Sampling

    private func sample(_ index: Int, _ heartbeat: UnsafeMutablePointer<zg_heartbeat>, _ since: UInt64, _ now: UInt64) {
        tracks[index]!.samples.plan(after: now, tick: tick)
        let track = tracks[index]!
        guard let owner = owners[index], owner.number == track.process, owner.isCurrent,
            let memory = try? ProcessMemory(processID: track.process)
        else { return }
        let nonce: UInt64? = memory.record(UInt64.self, at: heartbeat.pointee.place)
        guard nonce == track.nonce else {
            tracks[index]!.obstacle = "it is in another PID namespace"
            return
        }
        let call = SystemCall(of: track.process, thread: track.thread)
        let thread = Int32(truncatingIfNeeded: track.thread)
        let waited = waited(by: thread, of: track.process, in: call, memory)
        let wanted = [thread] + waited.threads
        let computing = computing(wanted, of: track.process)
        let mappings = (try? Mapping.all(of: track.process)) ?? []
        var calls = InterpretedCalls(process: track.process, mappings: mappings, memory: memory)
        // While `is_sampled` is set, the thread does not begin to wait for events (threads/heartbeat.c). Otherwise the
        // stop could interrupt that wait, and its system call would return early.
        _ = zg_system_exchange(&heartbeat.pointee.is_sampled, 1)
        defer {
            zg_system_store(&heartbeat.pointee.is_sampled, 0)
            _ = zg_system_futex_wake(&heartbeat.pointee.is_sampled)
        }
        guard zg_system_load_long(&heartbeat.pointee.busy_since) == since else { return }
        do throws(StoppedThreads.Refusal) {
            let stopped = try StoppedThreads(
                only: wanted, computing: computing, of: track.process, memory: memory,
                microseconds: Self.stopMicroseconds, whileStopped: { calls.look(at: $0) })
            zg_system_store(&heartbeat.pointee.is_sampled, 0)
            _ = zg_system_futex_wake(&heartbeat.pointee.is_sampled)
            keep(Stop(threads: stopped, mappings: mappings, calls: calls), index, call, waited, memory)
        } catch {
            tracks[index]!.obstacle =
                switch error {
                case .traced: "a debugger traces the program"
                case .refused(let error): "the kernel refuses ptrace (\(error))"
                }
        }
    }

    /// Data about threads, read while the threads were stopped.
    private struct Stop {
        var threads: StoppedThreads
        var mappings: [Mapping]
        var calls: InterpretedCalls
    }

    private func keep(
        _ stop: Stop, _ index: Int, _ call: SystemCall?, _ waited: Waited, _ memory: ProcessMemory
    ) {
        let track = tracks[index]!
        if let obstacle = StackUnwinder.obstacle { tracks[index]!.obstacle = obstacle }
        let sample = sample(
            Int32(truncatingIfNeeded: track.thread), of: track.process, in: call, waited, stop, memory)
        if !sample.stack.isEmpty { tracks[index]!.samples.add(sample) }
    }

    private func sample(
        _ thread: Int32, of process: Int, in call: SystemCall?, _ waited: Waited, _ stop: Stop,
        _ memory: ProcessMemory
    ) -> StallSample {
        let stopped = stop.threads
        left.add(stopped, except: child())
        let unwinder = StackUnwinder(
            mappings: stop.mappings,
            memory: CopiedMemory(copies: stopped.stacks, memory: memory))
        func stack(_ one: StoppedThreads.Thread) -> [Finding.Frame] {
            stop.calls.named(unwinder.stack(from: one.registers, known: one.known), of: one.id, &maps) {
                symbolicator.symbolicate([$0]).last?.function
            }
        }
        var sample = StallSample(call: call?.name)
        sample.chain = waited.chain
        for one in stopped.threads where one.id == thread {
            sample.stack = stack(one)
        }
        let others = waited.threads.compactMap { id -> Finding.ThreadStack? in
            let one = stopped.threads.first { $0.id == id }
            // Include a thread of a deadlock even if it could not be stopped.
            if one == nil, waited.chain == nil { return nil }
            return Finding.ThreadStack(
                id: number(of: id, in: process), threadID: Int(id),
                name: one?.name ?? ThreadTimes.name(of: id, in: process),
                stack: one.map(stack) ?? [])
        }
        sample.holder = others.first
        sample.waits = Array(others.dropFirst())
        // Discard the sample if the process has ended meanwhile: memory beyond the copies was unreadable, so the stacks
        // are incomplete.
        if let place = stopped.threads.first?.registers[Int(ZG_THREAD_PC)], memory.read(at: place, upTo: 1).isEmpty {
            return StallSample(call: nil)
        }
        return sample
    }

    // The runtime's number of a thread: 1 for the main thread; nil for another thread without a heartbeat.
    private func number(of thread: Int32, in process: Int) -> Int? {
        if Int(thread) == process { return 1 }
        for index in 0..<Int(ZG_HEARTBEATS) where heartbeat(index).pointee.tid == UInt32(bitPattern: thread) {
            return Int(heartbeat(index).pointee.number)
        }
        return nil
    }

    // MARK: Reporting

    private func conclude(_ track: ThreadWatch, _ index: Int, hasEnded: Bool) -> [Finding] {
        defer { tracks[index]?.since = 0 }
        // Check the duration first: most busy times are short, and finding out whether the thread is an event loop
        // reads /proc.
        guard track.since != 0, clock.milliseconds(since: track.since) >= limit,
            track.isLoop ?? (!isDefault && hasWaited(track, index))
        else { return [] }
        var track = track
        // Count the time that the thread has waited for a processor since the last poll.
        if !hasEnded, let times = ThreadTimes(of: track.process, thread: track.thread) {
            track.time.count(times, now: MonotonicTime.milliseconds, unseen: 0)
        }
        var busy = track.busy
        let heartbeat = heartbeat(index)
        let until = zg_system_load_long(&heartbeat.pointee.busy_until)
        // The thread may have ended its busy time and exited between two polls.
        let isOver =
            !hasEnded
            || heartbeat.pointee.nonce == track.nonce && heartbeat.pointee.tid == track.thread
                && zg_system_load_long(&heartbeat.pointee.busy_since) != track.since
        if isOver, until > track.since {
            track.felt = clock.milliseconds(from: track.since, to: until).subtractingClamped(track.time.unfelt)
            busy = track.time.weight(of: track.felt, limit: limit)
        }
        if busy < limit || track.isSaid || track.wasNeverSeen { return [] }
        track.recent.addRecent(track.event)
        let isFreeze = !isOver
        if busy < limit * Self.singleFactor, track.recent.count < times {
            tracks[index]?.recent = track.recent
            return []
        }
        tracks[index]?.recent = []
        return say(track, track.recent, isFreeze: isFreeze)
    }

    /// Makes a finding of these events. Reports a known finding again only when the number of its repeats has doubled.
    private func say(_ track: ThreadWatch, _ events: [StallEvent], isFreeze: Bool) -> [Finding] {
        guard
            var finding = Finding(
                stalls: events, isFreeze: isFreeze, thread: Finding.Thread(id: track.number, name: track.name),
                processID: track.process, program: track.program)
        else { return [] }
        let hasSamples = finding.stall?.sampled.isEmpty == false
        if let obstacle = track.obstacle, !hasSamples { finding.detail["samples"] = "none: \(obstacle)" }
        let told = tell(finding, of: ReportedFinding.Thread(process: track.process, number: track.number))
        if !told.isNew, let index = tracks.first(where: { $0.value.thread == track.thread })?.key {
            tracks[index]!.restMore()
        }
        return told.findings
    }

    private func tell(_ raw: Finding, of thread: ReportedFinding.Thread) -> (isNew: Bool, findings: [Finding]) {
        var finding = raw
        // As root, use only the rights of the process's user: the process chooses its mappings, and their debug
        // information names files to open.
        if geteuid() == 0 { finding.author = Author(of: try? ProcessFolder(of: thread.process)) }
        var key = ReportedFinding.Key(
            thread: thread, place: finding.stacks.access.first?.pc, depth: finding.stacks.access.count)
        // Without samples, count the stall as a repeat of the thread's previous finding.
        if finding.stall?.sampled.isEmpty != false, let last = lastKeys[thread] { key = last }
        lastKeys[thread] = key
        if known[key] == nil, known.count < Self.mostKnown {
            known[key] = ReportedFinding(finding: finding)
            return (true, [finding])
        }
        known[key]?.count(finding)
        if let again = known[key], again.isDue { return (false, [known[key]!.again()]) }
        return (false, [])
    }
}

// MARK: - State

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

    private struct ThreadWatch {
        let process: Int, thread: UInt32, number: Int, nonce: UInt64
        let program: String?
        var name: String?
        var since: UInt64 = 0 // ticks; 0 while the thread is not known to be busy
        /// `felt`: time since the thread became busy, minus ``BusyTime/unfelt``. `busy`: the part of `felt` that counts
        /// towards a stall (``BusyTime/weight(of:limit:)``).
        var felt: UInt64 = 0, busy: UInt64 = 0
        var time = BusyTime(now: 0)
        var loop = EventLoop()
        /// Whether this busy time is that of an event loop; nil: not determined yet.
        var isLoop: Bool?
        var lastAlive: UInt64 = 0
        var samples = StallSamples()
        var recent: [StallEvent] = []
        var obstacle: String?
        var isSaid = false
        private(set) var rest = SamplingBackoff()

        init(_ heartbeat: zg_heartbeat, of process: Int) {
            self.process = process
            thread = heartbeat.tid
            number = Int(heartbeat.number)
            nonce = heartbeat.nonce
            program = StallWatch.program(of: process)
        }

        mutating func begin(_ since: UInt64, now: UInt64) {
            if name == nil { name = ThreadTimes.name(of: Int32(truncatingIfNeeded: thread), in: process) }
            self.since = since
            (felt, busy, time, isSaid, isLoop) = (0, 0, BusyTime(now: now), false, nil)
            samples = StallSamples(next: rest.isOver ? 0 : .max)
            rest.passes()
        }

        mutating func restMore() { rest.more() }

        /// Whether no sample was taken although samples were due: probably neither zguard nor the thread ran then.
        /// False if an obstacle or a used-up CPU quota explains the lack of samples.
        var wasNeverSeen: Bool {
            samples.kept.isEmpty && samples.next != .max && obstacle == nil && !time.isThrottled
        }

        var event: StallEvent { StallEvent(felt: felt, time, samples: samples.kept) }
    }

    /// A reported finding, and how often it was repeated since its last report.
    private struct ReportedFinding {
        struct Thread: Hashable {
            var process, number: Int
        }

        struct Key: Hashable {
            var thread: Thread
            var place: Address?
            var depth: Int
        }

        var finding: Finding
        var said = 1, unreported = 0
        private var longest: Finding.Stall?, occurrences = 0

        init(finding: Finding) { self.finding = finding }

        var isDue: Bool { unreported >= said }

        mutating func count(_ other: Finding) {
            unreported += 1
            if let stall = other.stall { if longest == nil { longest = stall } else { longest!.add(stall) } }
            occurrences += other.stall?.occurrences ?? 1
        }

        mutating func again() -> Finding {
            var again = finding
            again.count = unreported
            again.time = Timestamp.now.description
            if let longest {
                again.stall?.durationMs = longest.durationMs
                again.stall?.withoutProcessorMs = longest.withoutProcessorMs
                again.stall?.withoutProcessorFor = longest.withoutProcessorFor
            }
            again.stall?.occurrences = occurrences
            again.stall?.samples = 0
            said += unreported
            (unreported, longest, occurrences) = (0, nil, 0)
            return again
        }
    }
}
