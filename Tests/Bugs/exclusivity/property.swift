// A closure reads a property directly while the closure modifies the property through its inout argument.
// finding: exclusivity
// access: read
// block: state=live language=swift class=Shop.Cart member=total
// stack-access: ~closure #1 in checkout
// stack-previous: Cart.change
// stack-alloc: ~makeCart
// detail: previous="write" signal="SIGABRT"
// exit: 134

final class Cart {
    var total = 1
    @inline(never)
    func change(_ body: (inout Int) -> Void) { body(&total) }
}

@inline(never)
func makeCart() -> Cart { Cart() }

@inline(never)
func checkout(_ cart: Cart) {
#if FIXED
    let now = cart.total
    cart.change { $0 += now }
#else
    cart.change { $0 += cart.total }
#endif
}

let cart = makeCart()
checkout(cart)
print("total", cart.total)
