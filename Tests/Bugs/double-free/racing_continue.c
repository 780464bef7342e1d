// Eight threads race to free one block and the program goes on: up to seven double frees make one finding.
// finding: double-free
// access: free
// block: size=256 offset=0 state=freeing|quarantined language=unknown
// stack-access: drop_job
// stack-free: - (the winner may not have recorded it yet)
// stack-alloc: make_job
// options: on_finding=continue:isolated_per_context=0
// exit: 99
// confidence: exact
// libs: -lpthread
// stdout: all threads ended
// count: 1-7

#include "../bug.h"
#include <pthread.h>

enum { threads = 8 };
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
    pthread_t thread[threads];
    char *job = make_job();
    pthread_barrier_init(&start, NULL, threads);
    for (int i = 0; i < threads; i++) {
#ifdef FIXED
        if (i) job = make_job();
#endif
        pthread_create(&thread[i], NULL, finish_job, job);
    }
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    puts("all threads ended");
    return 0;
}
