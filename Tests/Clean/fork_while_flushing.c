// A program forks while a thread flushes all streams, one of which calls a function that allocates.
// libs: -lpthread
// musl: unguarded, it ends by a signal

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { forks = 300, flushes_for_each = 8 };

static int stop, begun;

static ssize_t write_somewhere(void *unused, const char *bytes, size_t count) {
    static unsigned seed;
    char *kept[128];
    (void)unused;
    for (int i = 0; i < 128; i++) {
        size_t size = 16 + (seed = seed * 1103515245 + 12345) / 65536 % 9000;
        kept[i] = malloc(size);
        memset(kept[i], bytes[0], size);
    }
    for (int i = 0; i < 128; i++) free(kept[i]);
    return (ssize_t)count;
}

// Flushes a few times per fork, not continuously: libc's lock is not fair, and a fork may wait for it for minutes.
static void *flush(void *stream) {
    for (int seen = 0, flushes = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED);) {
        int now = __atomic_load_n(&begun, __ATOMIC_RELAXED);
        if (now != seen) seen = now, flushes = 0;
        if (flushes++ < flushes_for_each) {
            fputs("some words", stream);
            fflush(NULL);
        } else {
            sched_yield();
        }
    }
    return NULL;
}

int main(void) {
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_somewhere});
    pthread_t thread;
    int good = 0;
    pthread_create(&thread, NULL, flush, stream);
    for (int i = 0; i < forks; i++) {
        __atomic_store_n(&begun, i + 1, __ATOMIC_RELAXED);
        pid_t child = fork();
        if (!child) {
            free(malloc(1000));
            fflush(NULL);
            _exit(3);
        }
        int status = 0;
        waitpid(child, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 3;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    fclose(stream);
    printf("%d children\n", good);
    return 0;
}
