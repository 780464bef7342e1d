// A block is freed in one function and again in another.
// finding: double-free
// access: free
// block: size=48 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_cart
// stack-alloc: make_cart
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME char *make_cart(void) {
    char *cart = malloc(48);
    strcpy(cart, "cart");
    return cart;
}

FRAME void drop_cart(char *cart) {
    free(cart);
    KEEP_FRAME();
}

FRAME void drop_again(char *cart) {
    free(cart);
    KEEP_FRAME();
}

int main(void) {
    char *cart = make_cart();
    puts(cart);
    drop_cart(cart);
#ifdef FIXED
    cart = make_cart();
#endif
    drop_again(cart);
    return 0;
}
