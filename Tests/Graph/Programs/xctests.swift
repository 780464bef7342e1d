// XCTest keeps all test cases until the process ends, with what their properties hold. With LOST in the environment,
// testLost loses a cycle, and two more cycles to which the first refers.

import Glibc
import XCTest

final class Cart {
    var other: Cart?
    var order: Order?
}

final class Order {
    var next: Order?
}

final class CartTests: XCTestCase {
    var kept: Cart?

    func testKept() {
        kept = Cart()
        kept?.other = kept
    }

    func testLost() {
        guard getenv("LOST") != nil else { return }
        let first = Cart()
        let second = Cart()
        (first.other, second.other) = (second, first)
        let order = Order()
        let next = Order()
        (order.next, next.next) = (next, order)
        first.order = order
        second.order = Order()
        second.order?.next = second.order
    }

    // Overwrites words of the stack that may still refer to objects of testLost.
    func testMore() {
        XCTAssertEqual((0..<1000).map { "\($0)" }.joined().count, 2890)
    }
}

XCTMain([
    testCase([("testKept", CartTests.testKept), ("testLost", CartTests.testLost), ("testMore", CartTests.testMore)])
])
