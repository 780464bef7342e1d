// XCTest keeps all test cases until the process ends, with what their properties hold. With LOST in the environment,
// testLost loses a cycle, with two more that hang off it.

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

    // So that no word of the stack refers to an object of testLost.
    func testMore() {
        XCTAssertEqual((0..<1000).map { "\($0)" }.joined().count, 2890)
    }
}

XCTMain([
    testCase([("testKept", CartTests.testKept), ("testLost", CartTests.testLost), ("testMore", CartTests.testMore)])
])
