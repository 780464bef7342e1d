// XCTest tests that pass. Every XCTest test in a bundle that links ZombieGuardTesting is guarded.

import Shop
import XCTest
import ZombieGuardTesting

final class CartXCTests: XCTestCase {
    func testAddsThroughHandle() {
        let cart = Cart()
        assertNoZombies {
            let handle = Counter.open(cart)
            Counter.add("tea", to: handle)
            Counter.close(handle)
        }
        XCTAssertEqual(cart.items, ["tea"])
    }

    func testAsynchronously() async throws {
        try await assertNoZombies {
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    func testIsDeallocated() { assertDeallocated { Cart() } }

    func testReleaseIsCaught() { expectZombie(of: Cart.self, access: .release) { Counter.discard(Cart()) } }

    func testCallIsCaught() async {
        let finding = await expectZombie(of: Cart.self, access: .call) {
            let handle = Counter.open(Cart())
            Counter.close(handle)
            Counter.add("tea", to: handle)
        }
        XCTAssertEqual(finding?.block?.className, "Shop.Cart")
    }
}
