// The classes of the shop: carts, boxes and customers.

/// A shopping cart.
public class Cart {
    public private(set) var items: [String] = []
    public var discount = 0

    public init() {}

    public func add(_ item: String) { items.append(item) }
}

/// A generic class: ZombieGuard handles it like any other.
public final class Box<Content> {
    public var content: Content

    public init(_ content: Content) { self.content = content }
}

/// A customer, who keeps the cart.
public final class Customer {
    public var cart: Cart?

    public init() {}
}
