// expectZombie calls in XCTest that fail.
// The comment above each test gives the expected failure and its location; the test driver reads it.

import Shop
import XCTest
import ZombieGuardTesting

final class ExpectationXCTests: XCTestCase {
    // fails: no zombie of Shop.Cart was touched: the body ended normally
    // at: ExpectationXCTests.swift "// no bug"
    func testNoBug() {
        expectZombie(of: Cart.self, access: .release) { _ = Cart() } // no bug
    }

    // fails: the body crashed with SIGSEGV, which is no zombie: null-access: write at 0x10
    // at: ExpectationXCTests.swift "// null"
    func testNullPointer() async {
        await expectZombie(of: Cart.self) { // null
            UnsafeMutablePointer<Int>(bitPattern: 16)?.pointee = 1
        }
    }
}
