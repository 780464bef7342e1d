// Blocks are live at exit: some protected, mapped over or passed to madvise, some in busy threads, in child and parent.
// options: profile=fence
// libs: -pthread

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, SIZES = 300, THREADS = 3 };

static char *make(size_t size) {
    char *block = malloc(size);
    memset(block, 'x', size);
    return block;
}

static char *make_pages(size_t size) {
    void *block;
    if (posix_memalign(&block, PAGE, size)) exit(2);
    memset(block, 'p', size);
    return block;
}

static void *work(void *unused) {
    char *volatile blocks[16] = {NULL};
    for (size_t i = 0;; i++) {
        free(blocks[i % 16]);
        blocks[i % 16] = make(i * 37 % 6000);
    }
    return unused;
}

int main(void) {
    static char *blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) blocks[i] = make(i * i % 9001);
    mprotect(make_pages(3 * PAGE), 3 * PAGE, PROT_NONE);
    mprotect(make_pages(3 * PAGE + 100), PAGE, PROT_READ);
    mprotect(make_pages(2 * PAGE + 10), 2 * PAGE, PROT_NONE);
    madvise(make_pages(4 * PAGE), 4 * PAGE, MADV_DONTNEED);
    madvise(make_pages(4 * PAGE), 2 * PAGE, MADV_WIPEONFORK);
    char *large = make_pages(64 * PAGE);
    if (mmap(large, 8 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != large) return 1;
    munmap(make_pages(64 * PAGE), 4 * PAGE);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_detach(thread);
    }
    usleep(20000);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) exit(3);
    int status = 0;
    waitpid(child, &status, 0);
    printf("%d %c\n", WEXITSTATUS(status), blocks[SIZES - 1][0]);
    return 0;
}
