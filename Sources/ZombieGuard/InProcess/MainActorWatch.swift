// Asks the main queue for signs of life, and looks at what holds it up where none comes.

import CSystem
import Dispatch
import Glibc
import Synchronization

/// A watch over the main queue, with a thread of its own until it is stopped.
package final class MainActorWatch: Sendable {
    private let rule: StallMonitor.Rule
    private let report: @Sendable (Finding) -> Void
    private let state = Mutex(State())
    /// Signalled at each answer, and when it is to stop.
    private let news = DispatchSemaphore(value: 0)
    private let isOver = DispatchSemaphore(value: 0)

    private struct State {
        /// The number of the last question that was answered, and when.
        var answered = 0, answeredAt: UInt64 = 0
        var queue = MainQueue()
        /// Otherwise nobody may ever answer.
        var isServed: Bool { queue.lastServer != nil }
        var isStopped = false, hasStarted = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// So long is waited for a first sign of life, in milliseconds.
    private static let firstMilliseconds = 1000
    private static let rowMilliseconds: UInt64 = 10_000

    /// - Parameters:
    ///   - rule: from when on it is a stall.
    ///   - report: told of each stall, by the watch's own thread.
    package init(_ rule: StallMonitor.Rule, report: @escaping @Sendable (Finding) -> Void) {
        self.rule = rule
        self.report = report
    }

    /// Begins. Where the caller runs on the main thread, that is held up from now on.
    ///
    /// - Returns: whether there is a thread for it.
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

    /// Returns when the main queue has given a first sign of life, or none comes.
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

    /// The same for code that cannot be suspended. It waits only where it does not itself hold up the main thread.
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

    /// Ends soon; a stall that lasts is left at that.
    package func stop() {
        state.withLock { $0.isStopped = true }
        news.signal()
    }

    /// Ends, and returns when all is reported, also what lasts until now.
    package func conclude() {
        guard state.withLock({ $0.hasStarted }) else { return }
        stop()
        isOver.wait()
    }

    // MARK: The thread

    private var limit: UInt64 { rule.milliseconds }
    /// Between two looks at who does not answer; between an answer and the next question.
    private var tick: UInt64 { max(2, min(50, limit / 5)) }
    private var pause: UInt64 { max(1, min(50, limit / 8)) }
    private var freezeMilliseconds: UInt64 { max(40 * limit, 2000) }

    private func run() {
        var row: [StallEvent] = []
        var question = 0
        while !state.withLock({ $0.isStopped }) {
            question += 1
            ask(question)
            if let event = wait(for: question) { row.append(event) }
            row.removeAll { MonotonicTime.milliseconds - $0.at > Self.rowMilliseconds }
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

    /// Returns how long it took longer than that, because the whole process did not run.
    private func rest(_ milliseconds: UInt64) -> UInt64 {
        let before = MonotonicTime.milliseconds
        _ = news.wait(timeout: .now() + .milliseconds(Int(milliseconds)))
        return (MonotonicTime.milliseconds - before).subtractingClamped(3 * milliseconds + 10)
    }

    /// What it was held up with until it answered this question; nil where it was not, or not for so long.
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
            let busy = ((hasAnswered ? max(state.answeredAt, asked) : now) - asked).subtractingClamped(time.discount)
            if hasAnswered || state.isStopped {
                return state.isServed && busy >= limit && !isSaid ? event(busy, of: server, time, samples.kept) : nil
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
                // A sample taken meanwhile may show `conclude` waiting for this very thread.
                if let sample = OwnThread.sample(thread), !self.state.withLock({ $0.isStopped }) { samples.add(sample) }
            }
            if busy >= freezeMilliseconds, !isSaid {
                isSaid = true
                say([event(busy, of: server, time, samples.kept)], isFreeze: true)
            }
        }
    }

    private func event(_ busy: UInt64, of thread: Int32?, _ time: BusyTime, _ samples: [StallSample]) -> StallEvent {
        StallEvent(
            thread: thread, at: MonotonicTime.milliseconds, busy: busy, isComputing: time.isComputing(in: samples),
            samples: samples)
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

// MARK: - What it does meanwhile

/// Threads of this process, looked at from another one.
enum OwnThread {
    private static let stopMicroseconds: Int32 = 20_000

    /// Why there are no stacks.
    static var obstacle: String {
        GuardRuntime.current == nil ? "ZombieGuard is not active" : "the kernel refuses ptrace"
    }

    /// What a thread does now; nil where it cannot be stopped.
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

    // The memory may be gone by now.
    private static func word(at address: UInt64, in memory: Descriptor) -> UInt32? {
        var word: UInt32 = 0
        let size = MemoryLayout.size(ofValue: word)
        return pread(memory.number, &word, size, off_t(Int64(bitPattern: address))) == size ? word : nil
    }
}
