import Shop
import XCTest
import ZombieGuardTesting

final class XCartTests: XCTestCase {
    func testEnds() { expectZombie(of: Cart.self) {} }
    func testAsync() async { await expectZombie(of: Cart.self) { exit(5) } }
}
