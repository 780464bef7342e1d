// Twenty thousand threads are alive at once, each of which has allocated; the last thousands cost no more than the first.
// libs: -lpthread
// qemu-user: an emulated thread has memory of the emulator, too: how many there may be depends on what else is mapped
// machine: twenty thousand threads take it minutes

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { threads = 20000, batch = 2000, factor = 12, slack_ms = 300 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER, end = PTHREAD_COND_INITIALIZER;
static int arrived, may_end;

static void *work(void *unused) {
    char *block = malloc(40);
    (void)unused;
    memset(block, 'b', 40);
    pthread_mutex_lock(&mutex);
    arrived++;
    pthread_cond_signal(&changed);
    while (!may_end) pthread_cond_wait(&end, &mutex);
    pthread_mutex_unlock(&mutex);
    return block;
}

// What the process itself has computed so far: the kernel's part is the same without the library.
static long milliseconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec * 1000 + usage.ru_utime.tv_usec / 1000;
}

int main(void) {
    static pthread_t made[threads];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 32 << 10);
    long first = 0, last = 0, since = milliseconds();
    int count = 0;
    for (; count < threads; count++) {
        if (pthread_create(&made[count], &attributes, work, NULL) != 0) break;
        pthread_mutex_lock(&mutex);
        while (arrived <= count) pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
        if ((count + 1) % batch) continue;
        last = milliseconds() - since;
        since = milliseconds();
        if (!first) first = last + 1;
    }
    pthread_mutex_lock(&mutex);
    may_end = 1;
    pthread_cond_broadcast(&end);
    pthread_mutex_unlock(&mutex);
    int good = 0;
    for (int i = 0; i < count; i++) {
        void *block = NULL;
        pthread_join(made[i], &block);
        good += block && *(char *)block == 'b';
        free(block);
    }
    printf("%d threads, %d blocks\n", count, good);
    if (last > first * factor + slack_ms) printf("%ld ms for the first %d, %ld for the last\n", first, batch, last);
    return 0;
}
