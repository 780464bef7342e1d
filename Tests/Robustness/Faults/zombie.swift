// Swift objects for Tests/Robustness/faults.py: allocated, shared, freed, and two of them used after free. The output
// does not depend on the allocator. A method of a freed object is called only if the object is guarded, as the call
// crashes otherwise.

import Glibc

class Cart {
    var items: [String]
    var last: UInt8 = 7 // the object has 25 bytes; libc's block is larger
    init(_ items: [String]) { self.items = items }
    func count() -> Int { items.count }
}

final class Table {
    var rows: [Int: Cart] = [:]
    func fill(_ number: Int) -> Int {
        for row in 0..<number { rows[row] = Cart((0..<row % 9).map { "item \($0) of \(row)" }) }
        return rows.values.reduce(0) { $0 + $1.count() }
    }
}

@inline(never) func deadCart() -> Unmanaged<Cart> {
    let cart = Unmanaged.passRetained(Cart(["a", "b"]))
    cart.release()
    return cart
}

@_silgen_name("malloc_usable_size") func usableSize(_ block: UnsafeMutableRawPointer) -> Int

@inline(never) func isGuarded(_ cart: Unmanaged<Cart>) -> Bool {
    usableSize(cart.toOpaque()) == classBytes
}
let classBytes = 25

print("items \(Table().fill(800))")
print("text \((0..<500).map(String.init).joined(separator: " ").count)")
fflush(nil)
let alive = Unmanaged.passRetained(Cart(["a"]))
if isGuarded(alive) {
    for _ in 0..<2 { _ = deadCart()._withUnsafeGuaranteedRef { $0.count() } }
}
print("end")
