// Detects stalls of the main queue: posts a ping, and samples the serving thread while no answer comes.

import CSystem
import Dispatch
import Glibc
import Synchronization

/// Watches the main queue on a thread of its own until it is stopped.
package final class MainActorWatch: Sendable {
    private let rule: StallMonitor.Rule
    private let report: @Sendable (Finding) -> Void
    private let state = Mutex(State())
    /// Signaled at each answer and by `stop`.
    private let news = DispatchSemaphore(value: 0)
    private let isOver = DispatchSemaphore(value: 0)

    private struct State {
        /// Number of the last answered ping, and the time of the answer.
        var answered = 0, answeredAt: UInt64 = 0
        var queue = MainQueue()
        /// Whether the main queue was ever served. If not, a missing answer is not a stall.
        var isServed: Bool { queue.lastServer != nil }
        var isStopped = false, hasStarted = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// Maximum wait for the first answer, in milliseconds.
    private static let firstMilliseconds = 1000

    /// - Parameters:
    ///   - rule: what counts as a stall.
    ///   - report: called with each stall, on the watch's thread.
    package init(_ rule: StallMonitor.Rule, report: @escaping @Sendable (Finding) -> Void) {
        self.rule = rule
        self.report = report
    }

    /// Starts the thread. If called on the main thread, that thread counts as serving the queue from now on.
    ///
    /// - Returns: whether the thread was started.
    package func start() -> Bool {
        state.withLock { state in
            if zg_system_thread_id() == getpid() { state.queue.isServed() }
        }
        let watch = Unmanaged.passRetained(self)
        let result = zg_system_start_thread(
            "zguard-stalls",
            {
                let watch = Unmanaged<MainActorWatch>.fromOpaque($0!).takeRetainedValue()
                GuardRuntime.aside { watch.run() }
            }, watch.toOpaque())
        if result != 0 { watch.release() }
        state.withLock { $0.hasStarted = result == 0 }
        return result == 0
    }

    /// Returns when the main queue has answered its first ping, or after one second.
    package func begin() async {
        await withCheckedContinuation { continuation in
            let isServed = state.withLock { state in
                if state.isServed { return true }
                state.waiting.append(continuation)
                return false
            }
            if isServed { return continuation.resume() }
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(Self.firstMilliseconds)) {
                self.letBegin()
            }
        }
    }

    /// Blocking variant of `begin`. Useless on the main thread, which cannot answer while it is blocked.
    package func beginNow() {
        for _ in 0..<Self.firstMilliseconds where state.withLock({ !$0.isServed }) { usleep(1000) }
    }

    private func letBegin() {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Requests the end of the thread. Does not wait for it.
    package func stop() {
        state.withLock { $0.isStopped = true }
        news.signal()
    }

    /// Stops the thread and waits until all stalls are reported, including one in progress.
    package func conclude() {
        guard state.withLock({ $0.hasStarted }) else { return }
        stop()
        isOver.wait()
    }

    // MARK: The thread

    private var limit: UInt64 { rule.milliseconds }
    /// `tick`: milliseconds between two checks for a missing answer. `pause`: milliseconds between an answer and the
    /// next ping.
    private var tick: UInt64 { max(2, min(50, limit / 5)) }
    private var pause: UInt64 { max(1, min(50, limit / 8)) }
    private var freezeMilliseconds: UInt64 { max(40 * limit, 2000) }

    private func run() {
        var row: [StallEvent] = []
        var question = 0
        while !state.withLock({ $0.isStopped }) {
            question += 1
            ask(question)
            if let event = wait(for: question) { row.addRecent(event) }
            if row.count >= rule.times {
                say(row)
                row = []
            }
            _ = rest(pause)
        }
        isOver.signal()
    }

    private func ask(_ question: Int) {
        DispatchQueue.main.async { [self] in
            state.withLock { state in
                (state.answered, state.answeredAt) = (question, MonotonicTime.milliseconds)
                state.queue.isServed()
            }
            letBegin()
            news.signal()
        }
    }

    /// Sleeps until an answer or `stop`, at most for the given time. If the sleep took longer than three times that
    /// time plus 10 ms, returns the excess in milliseconds: during the excess, the whole process did not run (SIGSTOP,
    /// overload).
    private func rest(_ milliseconds: UInt64) -> UInt64 {
        let before = MonotonicTime.milliseconds
        _ = news.wait(timeout: .now() + .milliseconds(Int(milliseconds)))
        return (MonotonicTime.milliseconds - before).subtractingClamped(3 * milliseconds + 10)
    }

    /// Waits for the answer to a ping, or for `stop`. Returns the stall that ended then; nil if it was shorter than the
    /// limit or is already reported, or if the queue was never served.
    private func wait(for question: Int) -> StallEvent? {
        let asked = MonotonicTime.milliseconds
        var time = BusyTime(now: asked)
        var samples = StallSamples()
        var server: Int32?
        var isSaid = false
        while true {
            let unseen = rest(tick)
            let now = MonotonicTime.milliseconds
            let state = state.withLock { $0 }
            let hasAnswered = state.answered >= question
            let felt = time.felt(since: asked, until: hasAnswered ? max(state.answeredAt, asked) : now)
            // Subtract the time in which the thread waited for a processor: tests run on busy machines.
            let busy = time.own(of: felt)
            if hasAnswered || state.isStopped {
                return state.isServed && busy >= limit && !isSaid ? event(felt, of: server, time, samples.kept) : nil
            }
            guard let thread = state.queue.server, let times = ThreadTimes(of: Int(getpid()), thread: UInt32(thread))
            else {
                time.leaveOut(until: now)
                continue
            }
            server = thread
            time.count(times, now: now, unseen: unseen)
            if busy * 2 >= limit, now >= samples.next {
                samples.plan(after: now, tick: tick)
                // The sample may show the main thread in `conclude`, waiting for this thread: discard it then.
                if let sample = OwnThread.sample(thread), !self.state.withLock({ $0.isStopped }) { samples.add(sample) }
            }
            if busy >= freezeMilliseconds, !isSaid {
                isSaid = true
                say([event(felt, of: server, time, samples.kept)], isFreeze: true)
            }
        }
    }

    private func event(_ felt: UInt64, of thread: Int32?, _ time: BusyTime, _ samples: [StallSample]) -> StallEvent {
        StallEvent(thread: thread, felt: felt, time, samples: samples)
    }

    private func say(_ events: [StallEvent], isFreeze: Bool = false) {
        let process = getpid()
        let thread = events.last?.thread ?? process
        let finding = Finding(
            stalls: events, isFreeze: isFreeze,
            thread: Finding.Thread(
                id: thread == process ? 1 : Int(thread), name: ThreadTimes.name(of: thread, in: Int(process))),
            processID: Int(process), program: OwnProgram.arguments.first)
        guard var finding else { return }
        if finding.stall?.sampled.isEmpty ?? true { finding.detail["samples"] = "none: \(OwnThread.obstacle)" }
        report(GuardRuntime.symbolicate(finding))
    }
}

// MARK: - Inspecting threads

/// Inspects threads of this process from another thread.
enum OwnThread {
    private static let stopMicroseconds: Int32 = 20_000

    /// Why stacks are not available.
    static var obstacle: String {
        GuardRuntime.current == nil ? "ZombieGuard is not active" : "the kernel refuses ptrace"
    }

    /// Samples what a thread does now; nil if it cannot be stopped.
    static func sample(_ thread: Int32) -> StallSample? {
        let process = Int(getpid())
        let call = SystemCall(of: process, thread: UInt32(bitPattern: thread))
        let memory = try? Descriptor(opening: "/proc/self/mem", flags: O_RDONLY)
        let holder = call?.holder(for: UInt32(bitPattern: thread), of: process) { address in
            memory.flatMap { word(at: address, in: $0) }
        }
        var sample = StallSample(call: call?.name)
        sample.stack = stack(of: thread)
        if let holder {
            sample.holder = Finding.ThreadStack(
                id: Int(holder) == process ? 1 : nil, threadID: Int(holder),
                name: ThreadTimes.name(of: holder, in: process), stack: stack(of: holder))
        }
        return sample.stack.isEmpty ? nil : sample
    }

    private static func stack(of thread: Int32) -> [Finding.Frame] {
        guard let runtime = GuardRuntime.current, thread != zg_system_thread_id() else { return [] }
        let process = Int(getpid())
        var computing = ComputingThreads()
        let computes = computing.computes(thread, of: process)
        switch StopPlace(of: thread, in: process) {
        case .disturbed: return []
        case .running: if !computes { return [] }
        case .undisturbed: break
        }
        return runtime.stack(of: thread, microseconds: stopMicroseconds)
    }

    // Reads through /proc/self/mem: the memory may have been unmapped, and a direct read would fault.
    private static func word(at address: UInt64, in memory: Descriptor) -> UInt32? {
        var word: UInt32 = 0
        let size = MemoryLayout.size(ofValue: word)
        return pread(memory.number, &word, size, off_t(Int64(bitPattern: address))) == size ? word : nil
    }
}
