// Swift Testing tests that leak memory. All fail, except where a comment says that they pass.

import Foundation
import Shop
import Testing
import ZombieGuardTesting

struct HeapTests {
    // fails: leak: nothing refers to a live Shop.Cart
    // fails: closure #1 in HeapTests.losesAnObject()
    // at: HeapTests.swift "expectNoLeaks { // an object"
    @Test(.noLeaks) func losesAnObject() { // reported once
        expectNoLeaks { // an object
            _ = Counter.open(Cart())
        }
    }

    // fails: leak: nothing refers to a live block of 48 bytes
    // fails: HeapTests.losesABlock()
    // at: HeapTests.swift "expectNoLeaks { // a block"
    @Test func losesABlock() {
        expectNoLeaks { // a block
            _ = memset(malloc(48)!, 1, 48)
        }
    }

    // fails: retain-cycle: an object keeps itself alive: Session.handler → closure #1 in Session.startKeeping() (Session.swift:14) → Session; 1 block
    // fails: HeapTests.losesASession()
    // at: HeapTests.swift "expectNoLeaks { // a session"
    @Test func losesASession() {
        expectNoLeaks { // a session
            Session().startKeeping()
        }
    }

    // fails: retain-cycle: 3 objects keep each other alive: Aisle.shelves → element of [AnyObject] → Shelf.kept → Aisle
    // fails: Aisle allocated:
    // fails: Shelf allocated:
    // at: HeapTests.swift "expectNoLeaks { // an aisle"
    @Test func losesAnAisle() {
        expectNoLeaks { // an aisle
            Aisle().addShelf(keepingAisle: true)
        }
    }

    // fails: retain-cycle:
    // fails: Clock.task
    // at: HeapTests.swift "expectNoLeaks { // a clock"
    @Test func losesATask() async {
        await expectNoLeaks { // a clock
            await Clock().run()
        }
    }

    // fails: retain-cycle: an object keeps itself alive: Session.handler → closure #1 in Session.startKeeping() (Session.swift:14) → Session; 1 block
    // at: HeapTests.swift "expectNoLeaks { // after awaiting"
    @Test func losesASessionAfterAwaiting() async {
        await expectNoLeaks { // after awaiting
            let session = Session()
            session.startKeeping()
            await session.sell()
        }
    }

    // fails: retain-cycle: an object keeps itself alive: Session.handler → closure #1 in Session.startKeeping() (Session.swift:14) → Session; 1 block
    // at: HeapTests.swift "@Test(.noLeaks) func losesASessionInATrait"
    @Test(.noLeaks) func losesASessionInATrait() { Session().startKeeping() }

    // fails: retain-cycle: an object keeps itself alive: Session.handler → closure #1 in Session.startKeeping() (Session.swift:14) → Session; 1 block
    // at: HeapTests.swift "@Test(.noLeaks) func losesASessionInAnAsynchronousTrait"
    @Test(.noLeaks) func losesASessionInAnAsynchronousTrait() async {
        let session = Session()
        session.startKeeping()
        await session.sell()
    }

    // fails: ZombieGuard.liveObjects(of: Till.self) → [a FailingTests.HeapTests.FastTill (16 bytes at 0x
    // fails: held by HeapTests.Drawer.till of a live
    // fails: HeapTests.hasLiveObjects()
    // at: HeapTests.swift "#expect(ZombieGuard.liveObjects(of: Till.self).isEmpty)"
    @Test func hasLiveObjects() {
        class Till {}
        final class FastTill: Till {}
        final class Drawer { var till: Till? }
        let drawer = Drawer()
        drawer.till = FastTill()
        #expect(ZombieGuard.liveObjects(of: Till.self).isEmpty)
        withExtendedLifetime(drawer) {}
    }

    // fails: dangling reference: Session.seller of a live Shop.Session
    // fails: points to a freed Shop.Seller of 16 bytes
    // at: HeapTests.swift "expectNoDanglingReferences { // a seller"
    @Test func leavesADanglingReference() {
        let session = Session()
        expectNoDanglingReferences { // a seller
            let seller = Seller()
            session.seller = seller
        }
        withExtendedLifetime(session) {}
    }
}

/// Two tests that run at the same time, of which one loses a session.
@Suite(.noLeaks) struct HeapParallelTests {
    private static let meeting = Meeting()

    // fails: Session.handler → closure #1 in Session.startKeeping() (Session.swift:14) → Session; 1 block
    // at: HeapTests.swift "@Test func losesWhileAnotherRuns"
    @Test func losesWhileAnotherRuns() async {
        await Self.meeting.arrive()
        for _ in 0..<20 {
            let session = Session()
            session.start()
            await session.sell()
        }
        Session().startKeeping()
        await Self.meeting.arrive()
    }

    // passes
    @Test func losesNothingMeanwhile() async {
        await Self.meeting.arrive()
        for _ in 0..<20 {
            let session = Session()
            session.start()
            await session.sell()
        }
        await Self.meeting.arrive()
    }

    /// A barrier for two tests. Each waits at most a second, because the tests may run one after the other.
    private actor Meeting {
        private var count = 0

        func arrive() async {
            count += 1
            let wanted = (count + 1) / 2 * 2
            for _ in 0..<100 where count < wanted { try? await Task.sleep(for: .milliseconds(10)) }
        }
    }
}
