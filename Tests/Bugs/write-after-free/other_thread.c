// A worker writes its result into a request that main has freed.
// finding: write-after-free
// access: write
// block: size=96 offset=24 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: give_up
// stack-alloc: make_request
// exit: 99
// detail: found_by="exit"
// libs: -lpthread
// options: isolated_per_context=0

#include "../bug.h"
#include <pthread.h>

struct request {
    long arguments[3];
    long result;
    long unused[8];
};

static pthread_barrier_t given_up;

FRAME struct request *make_request(void) {
    struct request *request = malloc(sizeof *request);
    memset(request, 0, sizeof *request);
    return request;
}

FRAME void give_up(struct request *request) {
    free(request);
    KEEP_FRAME();
}

FRAME void *work(void *argument) {
    struct request *request = argument;
    pthread_barrier_wait(&given_up);
    request->result = 42;
    return NULL;
}

int main(void) {
    pthread_t worker;
    struct request *request = make_request();
    pthread_barrier_init(&given_up, NULL, 2);
    pthread_create(&worker, NULL, work, request);
#ifndef FIXED
    give_up(request);
#endif
    pthread_barrier_wait(&given_up);
    pthread_join(worker, NULL);
#ifdef FIXED
    give_up(request);
#endif
    puts("end");
    return 0;
}
