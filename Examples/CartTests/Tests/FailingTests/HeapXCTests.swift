// XCTest tests that leak memory. All fail.

import Shop
import XCTest
import ZombieGuardTesting

final class HeapXCTests: XCTestCase {
    // fails: Session.handler → closure #1 in Session.startKeeping() (Session.swift:14) → Session; 1 block
    // at: HeapXCTests.swift "expectNoLeaks { // a session"
    func testLosesASession() {
        expectNoLeaks { // a session
            Session().startKeeping()
        }
    }

    // fails: Session.handler → closure #1 in Session.startKeeping() (Session.swift:14) → Session; 1 block
    // at: HeapXCTests.swift "expectNoLeaks { // after awaiting"
    func testLosesASessionAfterAwaiting() async {
        await expectNoLeaks { // after awaiting
            let session = Session()
            session.startKeeping()
            await session.sell()
        }
    }
}
