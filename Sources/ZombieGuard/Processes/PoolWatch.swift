// Calls that block threads of the pool that Swift's tasks run on: there are no more of these than processors, so every task waits.

import CUnwind
import Glibc

/// Looks at the threads of one process that neither run nor want to: at each once for every time that it stops running. Costs the program
/// nothing but that.
struct PoolWatch {
    let process: Int
    private var threads: [Int32: Parked] = [:]
    private var lastLook: UInt64 = 0
    private var isJob: [UInt64: Role] = [:] // by return address

    /// What a thread has done since it ran last.
    private struct Parked {
        var ran: UInt64
        var since: UInt64 // milliseconds
        var name: String?
        var call: SystemCall?
        var sample: StallSample?
        var isLookedAt = false

        /// It has run, but only because it was stopped: it is in the same call.
        func isStill(in times: ThreadTimes, _ now: @autoclosure () -> SystemCall?) -> Bool {
            if times.isStopped { return false }
            if ran == times.ran { return true }
            guard sample != nil, times.ran &- ran < 1_000_000, let call else { return false }
            return now()?.goesOn(with: call) ?? false
        }

        func event(until now: UInt64, _ limit: UInt64) -> StallEvent? {
            guard let sample, now - since >= limit else { return nil }
            return StallEvent(at: now, busy: now - since, isComputing: false, samples: [sample])
        }
    }

    private enum Role { case job, serialQueue, other }

    private static let mostAddresses = 10_000

    init(process: Int) { self.process = process }

    /// - Parameters:
    ///   - limit: how long a call may block a thread, in milliseconds.
    ///   - sample: a stack of the thread, which may be stopped for a moment; nil where there is none.
    ///   - name: the function at an address.
    /// - Returns: calls that are over, and were too long.
    mutating func look(
        now: UInt64, limit: UInt64, sample: (Int32, SystemCall) -> StallSample?,
        name: (Finding.Frame) -> String?
    ) -> [(thread: Int32, name: String?, event: StallEvent)] {
        guard now &- lastLook >= max(10, limit / 5) else { return [] }
        lastLook = now
        var over: [(thread: Int32, name: String?, event: StallEvent)] = []
        var alive: Set<Int32> = []
        for thread in StoppedThreads.threadIDs(of: process) {
            guard let times = ThreadTimes(of: process, thread: UInt32(bitPattern: thread)) else { continue }
            alive.insert(thread)
            let number = UInt32(bitPattern: thread)
            guard var parked = threads[thread], parked.isStill(in: times, SystemCall(of: process, thread: number))
            else {
                if let event = threads[thread]?.event(until: now, limit) {
                    over.append((thread, threads[thread]?.name, event))
                }
                threads[thread] = Parked(ran: times.ran, since: now)
                continue
            }
            parked.ran = times.ran
            if !parked.isLookedAt, now - parked.since >= limit / 2 {
                parked.isLookedAt = true
                parked.call = SystemCall(of: process, thread: number)
                if let call = parked.call, let sample = sample(thread, call),
                    isOfPool(sample.stack, name)
                {
                    parked.sample = sample
                    parked.name = ThreadTimes.name(of: thread, in: process)
                }
            }
            threads[thread] = parked
        }
        for (thread, parked) in threads where !alive.contains(thread) {
            if let event = parked.event(until: now, limit) { over.append((thread, parked.name, event)) }
            threads[thread] = nil
        }
        return over
    }

    /// Those that are blocked still.
    func blocked(now: UInt64, limit: UInt64) -> [(thread: Int32, name: String?, event: StallEvent)] {
        threads.compactMap { thread, parked in parked.event(until: now, limit).map { (thread, parked.name, $0) } }
    }

    /// A task runs there, and not on a serial queue, which may be blocked.
    private mutating func isOfPool(_ stack: [Finding.Frame], _ name: (Finding.Frame) -> String?) -> Bool {
        if isJob.count > Self.mostAddresses { isJob = [:] }
        var hasJob = false
        for frame in stack {
            let role = isJob[frame.pc.rawValue] ?? Self.role(of: name(frame) ?? "")
            isJob[frame.pc.rawValue] = role
            if role == .job { hasJob = true }
            if role == .serialQueue { return false }
        }
        return hasJob
    }

    /// The function runs a part of a task.
    static func runsJobs(_ function: String) -> Bool {
        function.hasPrefix("swift_job_run") || function.hasPrefix("swift::runJobInEstablishedExecutorContext")
    }

    private static func role(of function: String) -> Role {
        if runsJobs(function) { return .job }
        if function.hasPrefix("_dispatch_lane_") || function.hasPrefix("_dispatch_main_queue") { return .serialQueue }
        return .other
    }
}
