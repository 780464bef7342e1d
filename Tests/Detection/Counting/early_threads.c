// A library whose constructor starts threads that retain and release before the program begins.

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

extern void *swift_retain(void *object);
extern void swift_release(void *object);

static void *work(void *unused) {
    // Two references and the one of all unowned ones: RefCount.h. It is never given back.
    static struct {
        void *metadata;
        uint64_t counts;
    } object = {NULL, 3 | UINT64_C(1) << 33};
    for (;;) {
        swift_retain(&object);
        swift_release(&object);
    }
    return unused;
}

__attribute__((constructor)) static void start(void) {
    enum { THREADS = 60, SHARED_US = 20000 };
    pthread_t thread;
    for (int i = 0; i < THREADS; i++) pthread_create(&thread, NULL, work, NULL);
    usleep(SHARED_US);
}
