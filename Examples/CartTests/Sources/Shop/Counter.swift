// Gives code in other languages handles to carts. Swift does not release a handle's reference by itself.

/// Passes carts to code that is not Swift.
public enum Counter {
    /// The caller must close the handle exactly once.
    public static func open(_ cart: Cart) -> UnsafeMutableRawPointer { Unmanaged.passRetained(cart).toOpaque() }

    public static func close(_ handle: UnsafeMutableRawPointer) {
        Unmanaged<Cart>.fromOpaque(handle).release()
    }

    public static func add(_ item: String, to handle: UnsafeMutableRawPointer) {
        Unmanaged<Cart>.fromOpaque(handle)._withUnsafeGuaranteedRef { cart in
            cart.add(item)
        }
    }

    public static func setDiscount(_ discount: Int, of handle: UnsafeMutableRawPointer) {
        Unmanaged<Cart>.fromOpaque(handle)._withUnsafeGuaranteedRef { cart in
            cart.discount = discount
        }
    }

    /// A bug: the caller owns the object and will release it as well.
    public static func discard(_ object: AnyObject) { Unmanaged.passUnretained(object).release() }
}
