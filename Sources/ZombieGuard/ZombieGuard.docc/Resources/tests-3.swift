import Shop
import Testing
import ZombieGuardTesting

@Suite(.zombieGuarded) struct TillTests {
    @Test func scansAnItem() {
        let till = openTill()
        till.scan("tea")
    }
}
