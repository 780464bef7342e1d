// Swift Testing tests that fail because a zombie is touched.
// The comment above each test gives the expected failure and its location; the test driver reads it.

import Shop
import Testing
import ZombieGuardTesting

@Suite(.zombieGuarded) struct CartTests {
    // fails: use-after-free: method Cart.add(_:) was called on a deallocated Shop.Cart
    // at: Counter.swift "cart.add(item)"
    @Test func addAfterClose() {
        let handle = Counter.open(Cart())
        Counter.close(handle)
        Counter.add("tea", to: handle)
    }

    // fails: use-after-free: a deallocated Shop.Cart was released
    // at: CartTests.swift "// the last owner releases it again"
    @Test func releasedTwice() { discard(Cart()) } // the last owner releases it again

    private func discard(_ cart: Cart) { Counter.discard(cart) }

    // fails: use-after-free: method Cart.add(_:) was called on a deallocated Shop.Cart
    // at: Counter.swift "cart.add(item)"
    @Test func addAfterAwaiting() async {
        let handle = Counter.open(Cart())
        Counter.close(handle)
        await Task.yield()
        await addLater(to: handle)
    }

    private func addLater(to handle: UnsafeMutableRawPointer) async {
        await Task.yield()
        Counter.add("tea", to: handle)
    }

    // fails: use-after-free: method Cart.add(_:) was called on a deallocated Shop.Cart
    // at: Counter.swift "cart.add(item)"
    // times: 2
    @Test(arguments: ["tea", "milk"]) func addForEveryArgument(item: String) {
        let handle = Counter.open(Cart())
        Counter.close(handle)
        Counter.add(item, to: handle)
    }

    // passes
    @Test func nothingWrong() {
        let cart = Cart()
        cart.add("tea")
        #expect(cart.items == ["tea"])
    }

    #if compiler(>=6.2)
    @Suite struct Nested {
        // fails: a deallocated Shop.Box<Swift.Int>
        // at: CartTests.swift "// a box is released twice"
        @Test func `a box, too`() { Counter.discard(Box(1)) } // a box is released twice
    }
    #endif
}

@Suite struct PartlyGuardedTests {
    // fails: use-after-free: method Cart.add(_:) was called on a deallocated Shop.Cart
    // at: Counter.swift "cart.add(item)"
    @Test func addAfterClose() async throws {
        let handle = Counter.open(Cart())
        Counter.close(handle)
        try await expectNoZombies {
            try await Task.sleep(for: .milliseconds(1))
            Counter.add("tea", to: handle)
        }
    }

    // fails: double-free: a freed block of 48 bytes
    // at: CartTests.swift "block.deallocate() // again"
    @Test func doubleFree() async {
        await expectNoZombies {
            let block = UnsafeMutableRawPointer.allocate(byteCount: 48, alignment: 8)
            block.deallocate()
            block.deallocate() // again
        }
    }

    // fails: a Shop.Cart outlived the closure that made it: 1 reference is left, held by
    // fails: Customer.cart of a live Shop.Customer (allocated in PartlyGuardedTests.isKept(), CartTests.swift:88)
    // at: CartTests.swift "assertDeallocated { // kept"
    @Test func isKept() {
        let customer = Customer()
        assertDeallocated { // kept
            let cart = Cart()
            customer.cart = cart
            return cart
        }
    }

    // fails: outlived the closure that made it: 1 reference is left, held by
    // fails: PartlyGuardedTests.Clerk.work of a live FailingTests.PartlyGuardedTests.Clerk (allocated in closure #1
    // at: CartTests.swift "assertDeallocated { // a cycle"
    @Test func holdsItself() {
        final class Clerk {
            var work: (() -> Void)?
        }
        assertDeallocated { // a cycle
            let clerk = Clerk()
            clerk.work = { _ = clerk }
            return clerk
        }
    }
}
