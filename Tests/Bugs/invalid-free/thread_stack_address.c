// A thread frees a local array on its own stack.
// finding: invalid-free
// access: free
// stack-access: drop_buffer
// exit: 134
// confidence: exact
// detail: what="stack address"
// libs: -lpthread

#include "../bug.h"
#include <pthread.h>

FRAME void drop_buffer(char *buffer) {
    free(buffer);
    KEEP_FRAME();
}

FRAME void *use_buffer(void *unused) {
    _Alignas(16) char local[64] = "local";
    char *buffer = local;
#ifdef FIXED
    buffer = malloc(64);
    strcpy(buffer, local);
#endif
    puts(buffer);
    drop_buffer(buffer);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, use_buffer, NULL);
    pthread_join(thread, NULL);
    return 0;
}
