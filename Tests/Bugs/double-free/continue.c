// With on_finding=continue a second free is reported and has no effect: the program runs on to its usual end.
// finding: double-free
// access: free
// block: size=48 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_cart
// stack-alloc: make_cart
// options: on_finding=continue:isolated_per_context=0
// exit: 99
// confidence: exact
// stdout: still running: cart 1

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
    drop_cart(cart);
#ifdef FIXED
    cart = make_cart();
#endif
    drop_again(cart);
    cart = make_cart();
    char *other = make_cart();
    printf("still running: %s %d\n", cart, cart != other);
    drop_cart(cart);
    drop_cart(other);
    return 0;
}
