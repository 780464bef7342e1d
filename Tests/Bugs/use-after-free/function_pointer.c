// A function pointer in a freed listener is called.
// finding: use-after-free
// access: call
// block: size=32 offset=0 state=quarantined language=unknown
// stack-access: fire
// stack-free: drop_listener
// stack-alloc: make_listener
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

struct listener {
    int (*on_event)(int event);
    long unused[3];
};

FRAME int print_event(int event) {
    printf("event %d\n", event);
    return event;
}

FRAME struct listener *make_listener(void) {
    struct listener *listener = malloc(sizeof *listener);
    listener->on_event = print_event;
    return listener;
}

FRAME void drop_listener(struct listener *listener) {
    free(listener);
    KEEP_FRAME();
}

FRAME int fire(struct listener *listener, int event) {
    int result = listener->on_event(event);
    HOLD(listener);
    return result;
}

int main(void) {
    struct listener *listener = make_listener();
#ifndef FIXED
    drop_listener(listener);
#endif
    fire(listener, 3);
#ifdef FIXED
    drop_listener(listener);
#endif
    return 0;
}
