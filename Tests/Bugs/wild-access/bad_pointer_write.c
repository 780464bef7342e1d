// A thread writes through a pointer made from an integer.
// finding: wild-access
// access: write
// address: 0x1234000008
// stack-access: set_value
// exit: 139
// confidence: exact
// libs: -lpthread

#include "../bug.h"
#include <pthread.h>

FRAME void set_value(long *pointer) {
    pointer[1] = 3;
    HOLD(pointer);
}

FRAME void *work(void *pointer) {
    set_value(pointer);
    return NULL;
}

int main(void) {
    pthread_t worker;
#ifdef FIXED
    static long values[2];
    void *pointer = values;
#else
    void *pointer = (void *)0x1234000000;
#endif
    pthread_create(&worker, NULL, work, pointer);
    pthread_join(worker, NULL);
    puts("end");
    return 0;
}
