// A child frees a block that its parent freed before the fork: the finding has the parent's stacks.
// finding: double-free
// access: free
// block: size=48 offset=0 state=quarantined language=unknown
// stack-access: drop_in_child
// stack-free: drop_in_parent
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

FRAME void drop_in_parent(char *cart) {
    free(cart);
    KEEP_FRAME();
}

FRAME void drop_in_child(char *cart) {
    free(cart);
    KEEP_FRAME();
}

int main(void) {
    char *cart = make_cart();
#ifndef FIXED
    drop_in_parent(cart);
#endif
    pid_t child = fork();
    if (!child) {
        drop_in_child(cart);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
#ifdef FIXED
    drop_in_parent(cart);
#endif
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 7 : 0;
}
