public final class Till {
    unowned(unsafe) let cart: Cart

    public init(serving cart: Cart) { self.cart = cart }

    public func scan(_ item: String) { cart.add(item) }
}

public func openTill() -> Till { Till(serving: Cart()) }
