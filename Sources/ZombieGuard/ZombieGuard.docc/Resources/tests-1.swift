import Shop
import Testing

@Suite struct TillTests {
    @Test func scansAnItem() {
        let till = openTill()
        till.scan("tea")
    }
}
