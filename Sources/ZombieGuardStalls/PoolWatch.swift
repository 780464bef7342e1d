// Detects blocking calls on the threads of Swift's cooperative pool. The pool has at most one thread per processor, so
// a blocked thread delays all tasks.

import CUnwind
import Glibc
import ZombieGuard

/// Samples each blocked thread of one process: once for each blocking call, after half of the limit. Only these samples
/// slow the program.
struct PoolWatch {
    let process: Int
    private var threads: [Int32: Parked] = [:]
    private var lastLook: UInt64 = 0
    private var isJob: [UInt64: Role] = [:] // by return address

    /// A thread's state since it last ran.
    private struct Parked {
        var ran: UInt64
        var since: UInt64 // milliseconds
        var name: String?
        var call: SystemCall?
        var sample: StallSample?
        var isLookedAt = false

        /// Whether the thread is still blocked in the same call. Taking the sample may have made the thread run for
        /// less than a millisecond.
        func isStill(in times: ThreadTimes, _ now: @autoclosure () -> SystemCall?) -> Bool {
            if times.isStopped { return false }
            if ran == times.ran { return true }
            guard sample != nil, times.ran &- ran < 1_000_000, let call else { return false }
            return now()?.goesOn(with: call) ?? false
        }

        func event(until now: UInt64, _ limit: UInt64) -> StallEvent? {
            guard let sample, now - since >= limit else { return nil }
            return StallEvent(at: now, felt: now - since, isComputing: false, samples: [sample])
        }
    }

    private enum Role { case job, serialQueue, other }

    private static let mostAddresses = 10_000

    init(process: Int) { self.process = process }

    /// - Parameters:
    ///   - limit: shortest blocking call to report, in milliseconds.
    ///   - sample: takes a sample of a thread, which is stopped briefly; nil if the thread cannot be stopped.
    ///   - name: returns the name of the function at a frame.
    /// - Returns: calls at least `limit` long that have ended.
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

    /// Calls that have lasted at least `limit` and still block their threads.
    func blocked(now: UInt64, limit: UInt64) -> [(thread: Int32, name: String?, event: StallEvent)] {
        threads.compactMap { thread, parked in parked.event(until: now, limit).map { (thread, parked.name, $0) } }
    }

    /// Whether the stack runs a job of a Swift task and no item of a serial queue. An item of a serial queue is allowed
    /// to block its thread.
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

    /// Whether the function runs a job of a task.
    static func runsJobs(_ function: String) -> Bool {
        function.hasPrefix("swift_job_run") || function.hasPrefix("swift::runJobInEstablishedExecutorContext")
    }

    private static func role(of function: String) -> Role {
        if runsJobs(function) { return .job }
        if function.hasPrefix("_dispatch_lane_") || function.hasPrefix("_dispatch_main_queue") { return .serialQueue }
        return .other
    }
}
