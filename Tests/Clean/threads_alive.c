// Twenty thousand threads that have allocated are alive at once; the last thousands cost no more than the first.
// libs: -lpthread
// qemu-user: an emulated thread has memory of the emulator, too: how many there may be depends on what else is mapped
// machine: twenty thousand threads take it minutes

#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

enum { threads = 20000, batch = 2000, factor = 12, slack_ms = 300 };

// A mutex, not a condition variable: with so many waiters some versions of glibc lose a wakeup (glibc bug 25847).
static pthread_mutex_t end = PTHREAD_MUTEX_INITIALIZER;
static sem_t arrived;

static void *work(void *unused) {
    char *block = malloc(40);
    (void)unused;
    memset(block, 'b', 40);
    sem_post(&arrived);
    pthread_mutex_lock(&end);
    pthread_mutex_unlock(&end);
    return block;
}

// Returns `threads`, or half of the process IDs left in the system if that is less.
static int wanted_threads(void) {
    struct sysinfo system = {0};
    int numbers = 32768;
    FILE *file = fopen("/proc/sys/kernel/pid_max", "r");
    if (file) {
        if (fscanf(file, "%d", &numbers) != 1) numbers = 32768;
        fclose(file);
    }
    sysinfo(&system);
    int left = (numbers - system.procs) / 2;
    return left < threads ? left : threads;
}

// Returns the user time so far. Excludes system time, which is the same with and without the runtime.
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
    int count = 0, wanted = wanted_threads();
    sem_init(&arrived, 0, 0);
    pthread_mutex_lock(&end);
    for (; count < wanted; count++) {
        if (pthread_create(&made[count], &attributes, work, NULL) != 0) break;
        while (sem_wait(&arrived) != 0) {
        }
        if ((count + 1) % batch) continue;
        last = milliseconds() - since;
        since = milliseconds();
        if (!first) first = last + 1;
    }
    pthread_mutex_unlock(&end);
    int good = 0;
    for (int i = 0; i < count; i++) {
        void *block = NULL;
        pthread_join(made[i], &block);
        good += block && *(char *)block == 'b';
        free(block);
    }
    puts(count >= batch ? "some thousand threads" : "few threads");
    if (good != count) printf("%d threads, %d blocks\n", count, good);
    if (last > first * factor + slack_ms) printf("%ld ms for the first %d, %ld for the last\n", first, batch, last);
    return 0;
}
