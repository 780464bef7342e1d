// Tests that fail because the main actor is blocked for too long.

import Foundation
import Testing
import XCTest
import ZombieGuardTesting

@Suite(.serialized) struct StallTests {
    // fails: was busy for
    // fails: StallTests.sort
    // fails: : computing
    // at: StallTests.swift "// computes"
    @Test(.noStalls(over: .milliseconds(100))) @MainActor func computes() async {
        await Task.yield()
        sort(milliseconds: 400)
    }

    // fails: was busy for
    // fails: StallTests.readSlowly
    // fails: : waiting in clock_nanosleep
    // at: StallTests.swift "// sleeps"
    @Test @MainActor func waits() async {
        await expectNoStalls(over: .milliseconds(100)) {
            await Task.yield()
            readSlowly()
        }
    }

    // fails: ; 5 times
    // at: StallTests.swift "// computes"
    @Test(.noStalls(over: .milliseconds(50), times: 5)) @MainActor func isSluggish() async {
        for _ in 0..<7 {
            sort(milliseconds: 100)
            try? await Task.sleep(for: .milliseconds(20))
        }
    }

    // passes
    @Test(.noStalls(over: .milliseconds(50), times: 5)) @MainActor func isSluggishForAMoment() async {
        for _ in 0..<4 {
            sort(milliseconds: 100)
            try? await Task.sleep(for: .milliseconds(20))
        }
    }

    @MainActor private func sort(milliseconds: Int) {
        let end = ContinuousClock.now + .milliseconds(milliseconds)
        while ContinuousClock.now < end {} // computes
    }

    @MainActor private func readSlowly() {
        usleep(400_000) // sleeps
    }
}

final class StallXCTests: XCTestCase {
    // fails: was busy for
    // fails: for a lock that
    // at: StallTests.swift "// waits for somebody"
    func testLock() {
        let lock = NSLock()
        let isHeld = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            lock.lock()
            isHeld.signal()
            usleep(1_500_000)
            lock.unlock()
        }
        isHeld.wait()
        expectNoStalls(over: .milliseconds(100)) {
            lock.lock() // waits for somebody
            lock.unlock()
        }
    }
}
