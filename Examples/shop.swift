// A shop with a bug: the cart subscribes to price changes through a C-style callback, which does not keep it alive.
// scripts/demo compiles this file with plain swiftc, without ZombieGuard, and runs it under zguard.

/// Calls a function with a context pointer, as C libraries do.
final class PriceFeed {
    private var listener: (function: (UnsafeMutableRawPointer, Int) -> Void, context: UnsafeMutableRawPointer)?

    func listen(_ context: UnsafeMutableRawPointer, _ function: @escaping (UnsafeMutableRawPointer, Int) -> Void) {
        listener = (function, context)
    }

    func publish(price: Int) {
        guard let listener else { return }
        listener.function(listener.context, price)
    }
}

class Cart {
    private var prices: [Int] = []
    let customer: String

    init(customer: String) { self.customer = customer }

    func add(_ price: Int) { prices.append(price) }

    var total: Int { prices.reduce(0, +) }
}

@inline(never)
func openCart(for customer: String, _ feed: PriceFeed) -> Cart {
    let cart = Cart(customer: customer)
    // The bug: the feed is never told that the cart is gone. `passRetained`, or a way to unsubscribe, would fix it.
    feed.listen(Unmanaged.passUnretained(cart).toOpaque()) { context, price in
        Unmanaged<Cart>.fromOpaque(context)._withUnsafeGuaranteedRef { $0.add(price) }
    }
    return cart
}

@inline(never)
func checkOut(_ feed: PriceFeed) {
    let cart = openCart(for: "Ada", feed)
    feed.publish(price: 12)
    feed.publish(price: 30)
    print("\(cart.customer) pays \(cart.total)")
}

let feed = PriceFeed()
checkOut(feed)
feed.publish(price: 7)
print("done")
