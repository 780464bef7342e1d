// Two unique_ptr made from one raw pointer both delete the object.
// finding: double-free
// access: free
// block: size=64 offset=0 state=quarantined
// stack-access: ~own_second
// stack-free: ~own_first
// stack-alloc: make_cart
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"
#include <memory>

struct Cart {
    long items[8];
};

FRAME Cart *make_cart() {
    Cart *cart = new Cart();
    cart->items[1] = 5;
    return cart;
}

FRAME void own_first(Cart *cart) {
    std::unique_ptr<Cart> owner(cart);
    printf("%ld\n", owner->items[1]);
}

FRAME void own_second(Cart *cart) {
    std::unique_ptr<Cart> owner(cart);
    KEEP_FRAME();
}

int main() {
    Cart *cart = make_cart();
    own_first(cart);
#ifdef FIXED
    cart = make_cart();
#endif
    own_second(cart);
}
