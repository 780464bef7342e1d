// XCTest tests that fail because a zombie is touched. They do not have to declare that they are guarded.
// The comment above each test gives the expected failure and its location; the test driver reads it.

import Shop
import XCTest
import ZombieGuardTesting

final class CartXCTests: XCTestCase {
    // fails: use-after-free: method Cart.add(_:) was called on a deallocated Shop.Cart
    // at: Counter.swift "cart.add(item)"
    func testAddAfterClose() {
        let handle = Counter.open(Cart())
        Counter.close(handle)
        Counter.add("tea", to: handle)
    }

    // fails: use-after-free: a deallocated Shop.Cart was released
    // at: CartXCTests.swift "Counter.discard(Cart())"
    func testReleasedTwice() {
        assertNoZombies { Counter.discard(Cart()) }
    }

    // fails: use-after-free: method Cart.add(_:) was called on a deallocated Shop.Cart
    // at: Counter.swift "cart.add(item)"
    func testAddAfterAwaiting() async throws {
        let handle = Counter.open(Cart())
        Counter.close(handle)
        try await assertNoZombies {
            try await Task.sleep(for: .milliseconds(1))
            Counter.add("tea", to: handle)
        }
    }

    // passes
    func testNothingWrong() {
        let cart = Cart()
        cart.add("tea")
        XCTAssertEqual(cart.items, ["tea"])
    }
}
