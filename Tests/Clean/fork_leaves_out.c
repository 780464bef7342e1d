// madvise excludes parts of blocks from children or zeroes them there, as for device memory; the children end normally.
// qemu-user: unguarded, its children die there, of libc's own records in pages that were wiped
// musl: musl has no mallopt

#define _GNU_SOURCE
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { page = 4096, small = 1000, smalls = 64, whole = 8192, large = 200000, rounds = 20 };

static int status_of(int (*work)(char *), char *block) {
    fflush(stdout);
    pid_t child = fork();
    // Ends by exit, as programs do, but does not allocate: the child may lack parts of libc's own heap.
    if (!child) exit(work(block));
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Advises all pages that the block overlaps.
static void advise(void *block, size_t bytes, int advice) {
    uintptr_t low = (uintptr_t)block & ~(uintptr_t)(page - 1),
              high = ((uintptr_t)block + bytes + page - 1) & ~(uintptr_t)(page - 1);
    if (madvise((void *)low, high - low, advice)) printf("madvise refused\n");
}

static int only_end(char *unused) { return unused ? 3 : 4; }
static sigjmp_buf back;
static void is_missing(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}
static int touch(char *block) {
    signal(SIGSEGV, is_missing);
    return sigsetjmp(back, 1) ? 5 : *(volatile char *)block;
}
static int is_all(const char *block, size_t bytes, char byte) {
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != byte) return 0;
    return 1;
}
static int use_zeros(char *block) {
    if (!is_all(block, whole, 0)) return 1;
    memset(block, 2, whole);
    free(block);
    for (int i = 0; i < 1000; i++) free(malloc(whole - 8 * i));
    return 3;
}
static int use_contents(char *block) {
    if (!is_all(block, large, 'c')) return 1;
    free(block);
    free(malloc(large));
    return 3;
}
static int free_it(char *block) {
    free(block);
    char *other = malloc(large);
    memset(other, 1, large);
    free(other);
    return 3;
}

static char *aligned(size_t bytes) {
    void *block = NULL;
    if (posix_memalign(&block, page, bytes)) exit(9);
    memset(block, 'c', bytes);
    return block;
}

int main(void) {
    static char out[4096];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    mallopt(M_MMAP_THRESHOLD, 128 << 10); // fixes the threshold: large blocks keep their own mappings

    // Small buffers; every second one is freed before the fork.
    char *kept[smalls];
    for (int i = 0; i < smalls; i++) memset(kept[i] = malloc(small), 'k', small);
    for (int i = 0; i < smalls; i += 2) advise(kept[i], small, MADV_DONTFORK);
    for (int i = 1; i < smalls; i += 2) free(kept[i]);
    printf("small: %d\n", status_of(only_end, kept[0]));
    for (int i = 0; i < smalls; i += 2) advise(kept[i], small, MADV_DOFORK);
    for (int i = 0; i < smalls; i += 2) {
        if (!is_all(kept[i], small, 'k')) printf("changed\n");
        free(kept[i]);
    }
    printf("inherited again: %d\n", status_of(only_end, out));

    // Advises whole pages in every kind of block.
    for (int i = 0; i < rounds; i++) {
        char *mine = aligned(whole), *wiped = aligned(whole), *big = aligned(large), *odd = malloc(large + 5000);
        advise(mine, whole, MADV_DONTFORK);
        advise(wiped, whole, MADV_WIPEONFORK);
        if (i % 2) advise(big, large, i % 4 == 1 ? MADV_DONTFORK : MADV_WIPEONFORK);
        advise(odd + page, large - page, MADV_DONTFORK);
        int seen = status_of(touch, mine), zeros = status_of(use_zeros, wiped), freed = status_of(free_it, big),
            end = status_of(free_it, odd);
        if (seen != 5 || zeros != 3 || freed != 3 || end != 3)
            printf("round %d: %d %d %d %d\n", i, seen, zeros, freed, end);
        if (!is_all(mine, whole, 'c') || !is_all(wiped, whole, 'c') || !is_all(big, large, 'c')) printf("changed\n");
        advise(mine, whole, MADV_DOFORK);
        advise(wiped, whole, MADV_KEEPONFORK);
        free(mine);
        free(wiped);
        // free() must undo madvise's effect, so that children inherit the contents of later blocks at these addresses.
        free(big);
        free(odd);
        char *next = aligned(large), *last = malloc(large);
        memset(last, 'c', large);
        int first = status_of(use_contents, next), second = status_of(use_contents, last);
        if (first != 3 || second != 3) printf("round %d: %d %d for the next blocks\n", i, first, second);
        free(next);
        free(last);
    }
    printf("end\n");
    return 0;
}
