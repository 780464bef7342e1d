// Measures a period in which a thread is busy: how long the thread's events had to wait, and how long the thread waited
// for a processor.

/// Times of a thread since it became busy, in milliseconds. Felt time is time in which events of the thread had to
/// wait. A check is a call of ``count(_:now:unseen:)``.
package struct BusyTime {
    /// Excluded from the felt time: no event was due, the thread was stopped, or the whole system may have been
    /// suspended.
    package private(set) var unfelt: UInt64 = 0
    /// Time since the first check, and the part of it that ``unfelt`` contains.
    private var seen: UInt64 = 0, unfeltSeen: UInt64 = 0
    /// Nanoseconds of CPU time that the thread used since the first check.
    private var computed: UInt64 = 0
    /// Nanoseconds of ended waits for a processor. The kernel counts a wait when it ends.
    private var waited: UInt64 = 0
    /// Length of the current wait for a processor, which the kernel has not counted yet, and the part of it that
    /// ``unfelt`` contains.
    private var pending: UInt64 = 0, pendingUnfelt: UInt64 = 0
    private var last: ThreadTimes?
    private var lastLook: UInt64
    private var quotas: CPUQuotas?
    private var hasLookedForQuotas = false
    /// Milliseconds of all throttled periods up to the last check.
    private var throttled: UInt64 = 0
    /// Milliseconds for which a quota may have held the thread up: throttled periods, limited at each check to the time
    /// in which the thread did not run.
    private var throttling: UInt64 = 0

    /// Why a thread waited for a processor.
    package struct Delay: Equatable {
        /// "quota" or "load".
        package var cause: String
        /// The quota that was used up: "20 ms in every 100 ms, of cgroup /shop".
        package var quota: String?
    }

    package init(now: UInt64) { lastLook = now }

    /// Counts the time since the last check. For `unseen` milliseconds, zguard did not run: the whole system may have
    /// been suspended, so the thread's idle time in this period is not felt.
    package mutating func count(_ times: ThreadTimes, now: UInt64, unseen: UInt64) {
        let passed = now &- lastLook
        defer { (last, lastLook) = (times, now) }
        // The main queue of Dispatch is served by changing threads, whose times cannot be compared.
        guard let last, last.thread == times.thread else {
            unfelt += min(passed, unseen)
            return
        }
        // Both counters should only grow, but the kernel's values for a thread that is ending are not reliable: clamp.
        let delayed = times.delayed.subtractingClamped(last.delayed)
        let ran = times.ran.subtractingClamped(last.ran)
        let idle = times.isStopped ? passed : passed.subtractingClamped((ran &+ delayed) / 1_000_000)
        let taken = times.isStopped ? passed : min(unseen, idle)
        seen += passed
        computed &+= ran
        unfelt += taken
        unfeltSeen += taken
        // `times.ran` is 0 on a kernel that does not count times.
        if times.isRunnable, delayed == 0, ran < 1_000_000, times.ran > 0 {
            pending += passed - taken
            pendingUnfelt += taken
        } else {
            waited &+= delayed.subtractingClamped(pendingUnfelt * 1_000_000)
            (pending, pendingUnfelt) = (0, 0)
        }
        countThrottles(times)
    }

    /// Excludes the time since the last check from the felt time, because the thread had no work.
    package mutating func leaveOut(until now: UInt64) {
        let passed = now.subtractingClamped(lastLook)
        unfelt += passed
        (last, lastLook) = (nil, now)
    }

    /// Excludes `milliseconds` before the first check from the felt time.
    package mutating func leaveOut(_ milliseconds: UInt64) { unfelt += milliseconds }

    /// Counts the throttled periods since the last check. Searches for quotas only at the second check, because most
    /// busy periods end before the second check.
    private mutating func countThrottles(_ times: ThreadTimes) {
        // The kernel counts throttled periods of the whole cgroup, so the thread may have run in some of them. Limit
        // `throttling` to the time in which the thread did not run; otherwise later waits would be attributed to these
        // periods. The time of the waits cannot be the limit yet, because the kernel counts a wait when it ends.
        throttling = min(throttling, seen.subtractingClamped(computed / 1_000_000))
        if !hasLookedForQuotas {
            hasLookedForQuotas = true
            quotas = CPUQuotas(of: times.process, thread: times.thread)
        } else {
            quotas?.look()
            if let quotas { count(throttled: quotas.throttled) }
        }
    }

    /// Adds the throttled time since the last check. `now` is the total throttled time so far, in milliseconds.
    package mutating func count(throttled now: UInt64) {
        throttling += now.subtractingClamped(throttled)
        throttled = now
    }

    // MARK: Results

    /// Time in which the thread waited for a processor.
    package var withoutProcessor: UInt64 { waited / 1_000_000 + pending }

    /// Time in which the events of the thread had to wait.
    package func felt(since start: UInt64, until end: UInt64) -> UInt64 {
        end.subtractingClamped(start).subtractingClamped(unfelt)
    }

    /// The part of the felt time in which the thread had a processor, or waited for something other than a processor.
    package func own(of felt: UInt64) -> UInt64 { felt.subtractingClamped(withoutProcessor) }

    /// Time for which a quota may have held the thread up.
    private var heldUp: UInt64 { min(throttling, withoutProcessor) }

    /// Whether a quota may have held the thread up for at least half of the limit.
    private func isThrottled(limit: UInt64) -> Bool { heldUp * 2 >= limit }

    /// Whether a quota was used up for at least half of the time without a processor.
    package var isThrottled: Bool { delay?.quota != nil }

    /// The part of the felt time that counts towards a stall. `limit` is the minimum duration of a stall. A wait for a
    /// processor alone is no stall, because on a busy machine every thread waits for a processor. So all of the felt
    /// time counts only in two cases: for at least half of the limit, the thread ran or waited for something else, or
    /// for at least half of the limit, a quota may have held it up. Otherwise only the thread's own time counts.
    package func weight(of felt: UInt64, limit: UInt64) -> UInt64 {
        // Waits for a processor before the first check are unknown: use only the time since then.
        let seenOwn = seen.subtractingClamped(unfeltSeen + withoutProcessor)
        return seenOwn * 2 >= limit || isThrottled(limit: limit) ? felt : own(of: felt)
    }

    /// Why the thread waited for a processor; nil if it did not wait, or if its quotas were not read or cannot be read.
    package var delay: Delay? {
        guard withoutProcessor > 0, let quotas else { return nil }
        return heldUp * 2 >= withoutProcessor
            ? Delay(cause: "quota", quota: quotas.strictest) : Delay(cause: "load")
    }

    /// Whether the thread ran for at least half of the time in which it could run. If that is unknown: whether at least
    /// half of the samples are outside of system calls.
    package func isComputing(in samples: [StallSample]) -> Bool {
        let counted = seen.subtractingClamped(unfeltSeen + withoutProcessor)
        let isInCalls = samples.count { $0.call != nil } * 2 > samples.count
        return counted > 0 && last != nil ? computed * 2 / 1_000_000 >= counted : !isInCalls
    }
}
