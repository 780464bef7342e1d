public final class Cart {
    public private(set) var total = 0
    public init() {}
    public func add(_ price: Int) { total += price }
}
