// Threads with the smallest stack (16 KiB) use 4,000 bytes of it themselves: the runtime must leave these bytes free.
// libs: -pthread

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *unused) {
    volatile char buffer[4000];
    memset((void *)buffer, 1, sizeof buffer);
    free(malloc(100));
    return unused;
}

int main(void) {
    pthread_attr_t attributes;
    int failed = 0;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, work, NULL) == 0) pthread_join(thread, NULL);
        else failed++;
    }
    printf("%d threads failed\n", failed);
    return 0;
}
