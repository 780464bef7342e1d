// What a customer wants to buy, and a counter that gets its ownership wrong.

/// A shopping cart.
public class Cart {
    public private(set) var items: [String] = []
    public var discount = 0

    public init() {}

    public func add(_ item: String) { items.append(item) }
    public func count() -> Int { items.count }
}

/// A customer who keeps carts.
public final class Customer {
    public var name: String
    public var cart: Cart?

    public init(name: String) { self.name = name }
}

/// Passes carts to code that is not Swift, which keeps them as handles.
public enum Counter {
    /// The caller has to close the handle once.
    public static func open(_ cart: Cart) -> UnsafeMutableRawPointer { Unmanaged.passRetained(cart).toOpaque() }

    public static func close(_ handle: UnsafeMutableRawPointer) { Unmanaged<Cart>.fromOpaque(handle).release() }

    public static func add(_ item: String, to handle: UnsafeMutableRawPointer) {
        Unmanaged<Cart>.fromOpaque(handle)._withUnsafeGuaranteedRef { $0.add(item) }
    }

    public static func setDiscount(_ discount: Int, of handle: UnsafeMutableRawPointer) {
        Unmanaged<Cart>.fromOpaque(handle)._withUnsafeGuaranteedRef { $0.discount = discount }
    }

    /// The mistake: the cart is the caller's, who will release it, too.
    public static func discard(_ cart: Cart) { Unmanaged.passUnretained(cart).release() }
}
