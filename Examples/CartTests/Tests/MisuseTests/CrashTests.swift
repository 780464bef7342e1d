// A test that crashes the test process: the complete report is printed first.

import Testing
import ZombieGuardTesting

/// Run separately, because no test runs after the crash.
@Suite(.zombieGuarded, .serialized) struct CrashTests {
    @Test func readsNowhere() {
        #expect(readNumber(16) == 0)
    }

    @inline(never) private func readNumber(_ address: UInt) -> Int { UnsafePointer<Int>(bitPattern: address)!.pointee }
}
