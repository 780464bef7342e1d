// An object is deleted twice.
// finding: double-free
// access: free
// block: size=40 offset=0 state=quarantined
// stack-access: delete_again
// stack-free: delete_cart
// stack-alloc: make_cart
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

struct Cart {
    long items[5];
};

FRAME Cart *make_cart() {
    Cart *cart = new Cart();
    cart->items[0] = 7;
    return cart;
}

FRAME void delete_cart(Cart *cart) {
    delete cart;
    KEEP_FRAME();
}

FRAME void delete_again(Cart *cart) {
    delete cart;
    KEEP_FRAME();
}

int main() {
    Cart *cart = make_cart();
    printf("%ld\n", cart->items[0]);
    delete_cart(cart);
#ifdef FIXED
    cart = make_cart();
#endif
    delete_again(cart);
}
