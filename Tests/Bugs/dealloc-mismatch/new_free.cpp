// An object from new is freed by free.
// finding: dealloc-mismatch
// access: free
// block: size=40 offset=0
// stack-access: free_cart
// stack-alloc: make_cart
// exit: 99
// confidence: exact
// detail: allocated_with="operator new" freed_with="free"

#include "../bug.h"

struct Cart {
    long items[5];
};

FRAME Cart *make_cart() {
    Cart *cart = new Cart();
    cart->items[0] = 7;
    return cart;
}

FRAME void free_cart(Cart *cart) {
#ifdef FIXED
    delete cart;
#else
    free(cart);
#endif
    KEEP_FRAME();
}

int main() {
    Cart *cart = make_cart();
    printf("%ld\n", cart->items[0]);
    free_cart(cart);
}
