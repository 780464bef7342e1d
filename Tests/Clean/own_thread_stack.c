// A thread runs on a stack from aligned_alloc, which the program frees after the thread has ended.
// libs: -lpthread

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *text) {
    char *copy = strdup(text);
    for (int i = 0; i < 1000; i++) free(malloc((size_t)i));
    return copy;
}

int main(void) {
    for (int i = 0; i < 20; i++) {
        void *stack = aligned_alloc(4096, 131072), *result = NULL;
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        if (pthread_attr_setstack(&attributes, stack, 131072)) return 1;
        if (pthread_create(&thread, &attributes, work, "text")) return 2;
        pthread_join(thread, &result);
        if (i == 19) puts(result);
        free(result);
        free(stack);
    }
    return 0;
}
