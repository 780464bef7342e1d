// A thread frees a pointer to a member of a block that another thread allocated.
// finding: invalid-free
// access: free
// block: size=208 offset=32 state=live language=unknown
// stack-access: drop_task
// stack-alloc: make_queue
// exit: 134
// confidence: exact
// detail: what="interior pointer"
// libs: -lpthread

#include "../bug.h"
#include <pthread.h>

struct queue {
    long count;
    long unused[3];
    char task[176];
};

FRAME void *make_queue(void) {
    struct queue *queue = calloc(1, sizeof *queue);
    strcpy(queue->task, "task");
    return queue;
}

FRAME void *drop_task(void *task) {
    puts(task);
#ifndef FIXED
    free(task);
#endif
    KEEP_FRAME();
    return NULL;
}

int main(void) {
    pthread_t worker;
    struct queue *queue = make_queue();
    pthread_create(&worker, NULL, drop_task, queue->task);
    pthread_join(worker, NULL);
    free(queue);
    return 0;
}
