// Tests of code that does not stall the main actor, and one of code that does.

import Foundation
import Testing
import ZombieGuard
import ZombieGuardTesting

@MainActor final class Screen {
    var rows = 0

    func draw() { rows += 1 }

    /// Blocks the main actor for the whole time.
    func sortForTooLong(milliseconds: Int) {
        let end = ContinuousClock.now + .milliseconds(milliseconds)
        while ContinuousClock.now < end { rows &+= 1 }
    }
}

@Suite(.serialized) struct StallTests {
    @Test(.noStalls(over: .milliseconds(500))) @MainActor func draws() async {
        let screen = Screen()
        for _ in 0..<100 {
            screen.draw()
            await Task.yield()
        }
    }

    @Test func waitsWithoutHoldingUp() async {
        await expectNoStalls(over: .milliseconds(500)) { try? await Task.sleep(for: .milliseconds(700)) }
    }

    // A blocked thread other than the main thread is not a stall of the main actor.
    @Test func blocksAnotherThread() {
        expectNoStalls(over: .milliseconds(500)) { Thread.sleep(forTimeInterval: 0.7) }
    }

    @Test @MainActor func isSeenByAMonitor() async throws {
        let first = Task.detached {
            for await stall in StallMonitor(over: .milliseconds(100)) { return stall as Finding? }
            return nil
        }
        try await Task.sleep(for: .milliseconds(300))
        Screen().sortForTooLong(milliseconds: 400)
        let stall = try #require(await first.value)
        #expect(stall.kind == .stall && (stall.stall?.durationMs ?? 0) >= 100)
        #expect(stall.stacks.access.contains { $0.function?.contains("sortForTooLong") ?? false })
    }
}
