// Library whose constructor starts threads that call swift_retain and swift_release before main.

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

extern void *swift_retain(void *object);
extern void swift_release(void *object);

static void *work(void *unused) {
    // Strong count 2, unowned count 1 (layout: RefCount.h of the Swift runtime). The object is never freed.
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
