// Makes only malloc-family calls between two getppid calls: small and large blocks, grown, aligned, kept and freed,
// from many call sites. With an argument, a thread and a forked child do the same first.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 6000, ROUNDS = 4 };

static void *make(unsigned round, unsigned i) {
    size_t size = (i * 37 + round * 911) % 4000 + 1;
    if (i % 300 == 0) size = 200000 + i * 60;
    if (i % 5 == 0) return calloc(1, size);
    if (i % 7 == 0) return aligned_alloc(64, (size + 63) / 64 * 64);
    return memset(malloc(size), 7, size);
}

static void *work(void *unused) {
    void **blocks = calloc(COUNT, sizeof *blocks);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < COUNT; i++) {
            free(blocks[i]);
            blocks[i] = make(round, i);
            if (i % 11 == 0) blocks[i] = realloc(blocks[i], i % 3000 + 1);
        }
    void *grown = malloc(1 << 20);
    for (size_t size = 1 << 20; size < 256 << 20; size *= 2) grown = realloc(grown, size);
    free(grown);
    for (unsigned i = 0; i < COUNT; i++) free(blocks[i]);
    free(blocks);
    return unused;
}

int main(int count, char **words) {
    (void)words;
    if (count > 1) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) == 0) pthread_join(thread, NULL);
        pid_t child = fork();
        if (child == 0) {
            work(NULL);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    getppid();
    work(NULL);
    getppid();
    return 0;
}
