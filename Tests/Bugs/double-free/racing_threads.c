// Two threads race to free one block; the second free is reported.
// finding: double-free
// access: free
// block: size=256 offset=0 state=freeing|quarantined language=unknown
// stack-access: drop_job
// stack-free: - (the winner may not have recorded it yet)
// stack-alloc: make_job
// exit: 134
// confidence: exact
// libs: -lpthread
// options: isolated_per_context=0

#include "../bug.h"
#include <pthread.h>

static pthread_barrier_t start;

FRAME char *make_job(void) {
    char *job = malloc(256);
    strcpy(job, "job");
    return job;
}

FRAME void drop_job(char *job) {
    free(job);
    KEEP_FRAME();
}

FRAME void *finish_job(void *job) {
    pthread_barrier_wait(&start);
    drop_job(job);
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    char *job = make_job();
    pthread_barrier_init(&start, NULL, 2);
    pthread_create(&threads[0], NULL, finish_job, job);
#ifdef FIXED
    job = make_job();
#endif
    pthread_create(&threads[1], NULL, finish_job, job);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}
