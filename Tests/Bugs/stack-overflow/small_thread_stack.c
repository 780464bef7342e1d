// A recursion that fits on the main thread's stack is too deep for a thread with a stack of 128 KiB.
// finding: stack-overflow
// stack-access: descend
// exit: 139
// libs: -lpthread
// musl: every thread has a stack of 128 KiB

#include "../bug.h"
#include <pthread.h>

FRAME long descend(long depth) {
    volatile char local[100];
    local[0] = (char)depth;
    long below = depth ? descend(depth - 1) : 0;
    return below + local[0] * 0 + 1;
}

FRAME void *work(void *depth) {
    printf("%ld\n", descend((long)depth));
    return NULL;
}

int main(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
#ifndef FIXED
    pthread_attr_setstacksize(&attributes, 131072);
#endif
    pthread_create(&thread, &attributes, work, (void *)5000);
    pthread_join(thread, NULL);
    return 0;
}
