// A worker frees a request that it only borrowed, and the owner frees the request again after the join.
// finding: double-free
// access: free
// block: size=88 offset=0 state=quarantined language=unknown
// stack-access: drop_request
// stack-free: work_on_request
// stack-alloc: make_request
// exit: 134
// confidence: exact
// libs: -lpthread
// options: isolated_per_context=0

#include "../bug.h"
#include <pthread.h>

FRAME char *make_request(void) {
    char *request = malloc(88);
    strcpy(request, "GET /");
    return request;
}

FRAME void drop_request(char *request) {
    free(request);
    KEEP_FRAME();
}

FRAME void *work_on_request(void *request) {
    puts(request);
#ifndef FIXED
    free(request);
#endif
    KEEP_FRAME();
    return NULL;
}

int main(void) {
    pthread_t worker;
    char *request = make_request();
    pthread_create(&worker, NULL, work_on_request, request);
    pthread_join(worker, NULL);
    drop_request(request);
    return 0;
}
