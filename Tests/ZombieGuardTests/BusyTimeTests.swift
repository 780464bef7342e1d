// Tests of the reported reason why a busy thread waited for a processor.

import Glibc
import Testing

@testable import ZombieGuard

@Suite struct BusyTimeTests {
    /// Returns the weight of a thread that runs for 400 ms and then waits for 600 ms. 600 ms of throttled periods are
    /// counted while it runs, or while it waits.
    private func weight(isThrottledWhileRunning: Bool) throws -> UInt64 {
        var times = try #require(ThreadTimes(of: Int(getpid()), thread: UInt32(getpid())))
        (times.isRunnable, times.isStopped) = (true, false)
        var time = BusyTime(now: 0)
        time.count(times, now: 0, unseen: 0)
        for now: UInt64 in [200, 400] {
            times.ran += 200_000_000
            time.count(times, now: now, unseen: 0)
            if isThrottledWhileRunning, now == 200 { time.count(throttled: 600) }
        }
        times.delayed += 600_000_000
        time.count(times, now: 1000, unseen: 0)
        if !isThrottledWhileRunning { time.count(throttled: 600) }
        #expect(time.withoutProcessor == 600)
        return time.weight(of: 1000, limit: 1000)
    }

    @Test func quotaCountsWhileTheThreadWaits() throws {
        #expect(try weight(isThrottledWhileRunning: false) == 1000)
    }

    @Test func quotaThatHeldUpOthersIsNotBlamedForALaterWait() throws {
        #expect(try weight(isThrottledWhileRunning: true) == 400)
    }

    /// Another thread of the pool, which has computed for long before, begins to serve the queue, and sleeps.
    @Test func timesOfAnotherThreadAreNotCounted() throws {
        var times = try #require(ThreadTimes(of: Int(getpid()), thread: UInt32(getpid())))
        (times.ran, times.delayed, times.isRunnable, times.isStopped) = (5_000_000, 0, false, false)
        var time = BusyTime(now: 0)
        time.count(times, now: 20, unseen: 0)
        times.thread += 1
        (times.ran, times.delayed) = (800_000_000, 300_000_000)
        for now: UInt64 in stride(from: 40, through: 400, by: 20) { time.count(times, now: now, unseen: 0) }
        #expect(!time.isComputing(in: []))
        #expect(time.withoutProcessor == 0)
        #expect(time.felt(since: 0, until: 400) == 400)
    }
}
