// Tests that end the test process: the whole report is said before it dies.

import Testing
import ZombieGuardTesting

/// Run by itself: nothing comes after it.
@Suite(.zombieGuarded, .serialized) struct CrashTests {
    @Test func readsNowhere() {
        #expect(readNumber(16) == 0)
    }

    @inline(never) private func readNumber(_ address: UInt) -> Int { UnsafePointer<Int>(bitPattern: address)!.pointee }
}
