// A library whose constructor waits for a thread while the loader's lock is held; for constructor_thread.c.

#include <pthread.h>
#include <stdlib.h>

// The block begins like an object: with a pointer where the class would be, and a number where the reference count
// would be.
struct node {
    const long *owner;
    long index;
};

long constructor_thread_freed;

static void *work(void *unused) {
    struct node *node = malloc(sizeof *node);
    node->owner = &constructor_thread_freed;
    node->index = -1;
    free(node);
    constructor_thread_freed = 1;
    return unused;
}

__attribute__((constructor)) static void opened(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) == 0) pthread_join(thread, NULL);
}
