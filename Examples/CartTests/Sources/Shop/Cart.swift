// A small shop with a mistake: it releases a cart that it does not own.

/// What a customer wants to buy.
public final class Cart {
    public private(set) var items: [String] = []
    public var discount = 0

    public init() {}

    public func add(_ item: String) { items.append(item) }
}

/// Hands carts to code that is not Swift, as a handle.
public struct Counter {
    public init() {}

    /// The caller has to close the handle, once.
    public func open(_ cart: Cart) -> UnsafeMutableRawPointer { Unmanaged.passRetained(cart).toOpaque() }

    public func close(_ handle: UnsafeMutableRawPointer) { Unmanaged<Cart>.fromOpaque(handle).release() }

    public func add(_ item: String, to handle: UnsafeMutableRawPointer) {
        Unmanaged<Cart>.fromOpaque(handle)._withUnsafeGuaranteedRef { $0.add(item) }
    }

    public func setDiscount(_ discount: Int, of handle: UnsafeMutableRawPointer) {
        Unmanaged<Cart>.fromOpaque(handle)._withUnsafeGuaranteedRef { $0.discount = discount }
    }
}
