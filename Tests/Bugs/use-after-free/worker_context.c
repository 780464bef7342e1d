// A worker dereferences a pointer in a context that main freed too early.
// finding: use-after-free
// access: read
// block: size=120 offset=0 state=quarantined language=unknown
// stack-access: work
// stack-free: drop_context
// stack-alloc: make_context
// exit: 139
// confidence: inferred
// libs: -lpthread
// options: isolated_per_context=0

#include "../bug.h"
#include <pthread.h>

struct context {
    const long *input;
    long unused[14];
};

static pthread_barrier_t dropped;

FRAME struct context *make_context(void) {
    static const long input = 6;
    struct context *context = malloc(sizeof *context);
    context->input = &input;
    return context;
}

FRAME void drop_context(struct context *context) {
    free(context);
    KEEP_FRAME();
}

FRAME void *work(void *argument) {
    struct context *context = argument;
    pthread_barrier_wait(&dropped);
    printf("%ld\n", *context->input);
    HOLD(context);
    return NULL;
}

int main(void) {
    pthread_t worker;
    struct context *context = make_context();
    pthread_barrier_init(&dropped, NULL, 2);
    pthread_create(&worker, NULL, work, context);
#ifndef FIXED
    drop_context(context);
#endif
    pthread_barrier_wait(&dropped);
    pthread_join(worker, NULL);
#ifdef FIXED
    drop_context(context);
#endif
    return 0;
}
