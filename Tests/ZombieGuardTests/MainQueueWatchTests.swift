// Tests how another process detects stalls of the main queue.

import CSystem
import Glibc
import Testing

@testable import ZombieGuard
@testable import ZombieGuardStalls

@Suite struct MainQueueWatchTests {
    /// A stall event is created after the last inspection of the queue began: on a busy machine, a millisecond or more
    /// later.
    @Test func stallThatIsMadeAfterItsLookBegan() throws {
        let server = zg_system_thread_id()
        try #require(server != getpid())
        var watch = MainQueueWatch(process: Int(getpid()), address: 0)
        var reports: [MainQueueWatch.Report] = []
        for (now, server): (UInt64, Int32) in [(0, server), (200, server), (400, server), (410, 0)] {
            let look = MainQueueWatch.Look(now: now, unseen: 0, limit: 50, times: 5, tick: 10)
            let report = watch.look(.init(server: server, next: 0), look, sample: { _ in nil })
            if let report { reports.append(report) }
        }
        #expect(reports.count == 1)
        #expect(reports.first?.events.first?.felt == 400)
        #expect(reports.first?.isFreeze == false)
    }

    @Test func stallsOfTenSecondsCount() {
        var recent: [StallEvent] = []
        for at: UInt64 in [1000, 2000, 11_000, 12_001] {
            recent.addRecent(StallEvent(at: at, felt: 100, isComputing: true, samples: []))
        }
        #expect(recent.map(\.at) == [11_000, 12_001])
    }
}
