// A forked child frees a block twice and dies; the parent goes on and ends normally.
// finding: double-free
// access: free
// block: size=48 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_cart
// stack-alloc: make_cart
// exit: 7
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"
#include <sys/wait.h>
#include <unistd.h>

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
    pid_t child = fork();
    if (!child) {
        char *cart = make_cart();
        drop_cart(cart);
#ifdef FIXED
        cart = make_cart();
#endif
        drop_again(cart);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 7 : 0;
}
