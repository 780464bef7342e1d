// A thread reads through a null pointer; the finding has the stack of that thread.
// finding: null-access
// access: read
// address: 0x8
// stack-access: read_second
// exit: 139
// confidence: exact
// libs: -lpthread

#include "../bug.h"
#include <pthread.h>

FRAME long read_second(const long *values) {
    long value = values[1];
    HOLD(values);
    return value;
}

FRAME void *work(void *values) {
    printf("%ld\n", read_second(values));
    return NULL;
}

int main(void) {
    static long values[2] = {1, 2};
    pthread_t worker;
#ifdef FIXED
    pthread_create(&worker, NULL, work, values);
#else
    pthread_create(&worker, NULL, work, (void *)(values[0] - 1));
#endif
    pthread_join(worker, NULL);
    return 0;
}
