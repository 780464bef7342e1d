import Shop
import Testing

@Test func addToAbandonedCart() {
    let cart = Unmanaged.passRetained(Cart())
    cart.release()
    cart.takeUnretainedValue().add(3)
}
