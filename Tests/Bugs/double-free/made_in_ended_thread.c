// Two threads, one after the other, free a block whose allocating thread has ended.
// finding: double-free
// access: free
// block: size=160 offset=0 state=quarantined language=unknown
// stack-access: drop_result
// stack-free: drop_result
// stack-alloc: make_result
// exit: 134
// confidence: exact
// libs: -lpthread
// options: isolated_per_context=0

#include "../bug.h"
#include <pthread.h>

FRAME void *make_result(void *unused) {
    (void)unused;
    char *result = malloc(160);
    strcpy(result, "result");
    return result;
}

FRAME void *drop_result(void *result) {
    free(result);
    KEEP_FRAME();
    return NULL;
}

FRAME void *run(void *(*body)(void *), void *argument) {
    pthread_t thread;
    void *result = NULL;
    pthread_create(&thread, NULL, body, argument);
    pthread_join(thread, &result);
    return result;
}

int main(void) {
    void *result = run(make_result, NULL);
    puts(result);
    run(drop_result, result);
#ifdef FIXED
    result = run(make_result, NULL);
#endif
    run(drop_result, result);
    return 0;
}
