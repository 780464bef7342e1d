// The deinit of an object stores a reference to self that outlives the object.
// finding: use-after-free
// access: retain
// block: state=live language=swift class=Shop.Cart
// stack-access: ~dropCart
// stack-alloc: ~makeCart
// detail: operation="escape from deinit" references="1" signal="SIGABRT"
// exit: 134

nonisolated(unsafe) var all: [AnyObject] = []

final class Cart {
    var total = 1
    deinit {
#if !FIXED
        all.append(self)
#endif
    }
}

@inline(never)
func makeCart() -> Cart { Cart() }

@inline(never)
func dropCart() -> Int {
    let cart = makeCart()
    cart.total = 2
    return cart.total
}

print("total", dropCart())
print("done", all.count)
