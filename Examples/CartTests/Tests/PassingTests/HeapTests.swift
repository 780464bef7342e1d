// The corrected twins of the tests in FailingTests/HeapTests.swift. All pass.

import Foundation
import Shop
import Testing
import ZombieGuardTesting

@Suite(.noLeaks) struct HeapTests {
    @Test func losesNoObject() {
        expectNoLeaks {
            let handle = Counter.open(Cart())
            Counter.close(handle)
        }
    }

    @Test func losesNoBlock() {
        expectNoLeaks {
            guard let block = malloc(48) else { return }
            memset(block, 1, 48)
            free(block)
        }
    }

    @Test func losesNoSession() {
        expectNoLeaks { Session().start() }
    }

    @Test func losesNoAisle() {
        expectNoLeaks { Aisle().addShelf(keepingAisle: false) }
    }

    @Test func losesNoTask() async {
        await expectNoLeaks {
            let clock = Clock()
            await clock.run()
            clock.signal()
        }
    }

    @Test func returnsWhatIsHeld() async {
        let session = await expectNoLeaks {
            let session = Session()
            await session.sell()
            return session
        }
        #expect(session.sales == 1)
    }

    @Test func keepsWhatATaskHolds() async {
        let session = Session()
        let task = await expectNoLeaks {
            Task { [sales = session.sales] in
                try? await Task.sleep(for: .milliseconds(20))
                return [sales, 1]
            }
        }
        #expect(await task.value == [0, 1])
    }

    @Test func throwsOnward() {
        struct Refusal: Error {}
        #expect(throws: Refusal.self) {
            try expectNoLeaks {
                Session().start()
                throw Refusal()
            }
        }
    }

    @Test(arguments: 1...4) func losesNothing(_ count: Int) async {
        for _ in 0..<count {
            let session = Session()
            session.start()
            await session.sell()
        }
    }

    @Test func knowsLiveObjects() {
        class Till {}
        final class FastTill: Till {}
        #expect(ZombieGuard.liveObjects(of: Till.self).isEmpty)
        let tills = [Till(), FastTill()]
        #expect(ZombieGuard.liveObjects(of: Till.self).count == 2)
        let fast = ZombieGuard.liveObjects(of: FastTill.self)
        #expect(fast.map { $0.holders.first?.place } == ["element"])
        #expect(fast.first?.allocationStack.contains { $0.function?.contains("knowsLiveObjects") ?? false } ?? false)
        withExtendedLifetime(tills) {}
    }

    @Test func leavesOutWhatIsDeinitialized() {
        class Till {}
        final class Receipt {
            unowned let till: Till
            init(_ till: Till) { self.till = till }
        }
        var till: Till? = Till()
        let receipt = Receipt(till!) // keeps the memory, not the object
        #expect(ZombieGuard.liveObjects(of: Till.self).count == 1)
        till = nil
        #expect(ZombieGuard.liveObjects(of: Till.self).isEmpty)
        withExtendedLifetime(receipt) {}
    }

    @Test func leavesNoDanglingReference() {
        let session = Session()
        expectNoDanglingReferences {
            let seller = Seller()
            session.seller = seller
            session.seller = nil
        }
        withExtendedLifetime(session) {}
    }
}

/// Has no `.noLeaks` trait, because the trait would report the session that is lost outside of the expectation.
struct HeapPartTests {
    @Test func ignoresWhatWasLostBefore() {
        Session().startKeeping()
        expectNoLeaks { Session().start() }
    }
}
