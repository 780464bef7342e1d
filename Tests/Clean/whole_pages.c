// Large blocks are freed after mmap, mprotect or madvise of their pages, and later allocations reuse the memory.
// options: retired_bytes=1m
// qemu-user: unguarded it is ended there by libc, whose memory the emulator changes
// musl: musl has no mallopt

#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 200000, WHOLE = (BYTES + 4095) / 4096 * 4096 };

static char contents[WHOLE], now[WHOLE];
static int file;

static void map(void *block) { mmap(block, WHOLE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, file, 0); }
static void protect(void *block) { mprotect(block, BYTES, PROT_NONE); }
static void write_protect(void *block) { mprotect(block, BYTES, PROT_READ); }
static void advise(void *block) { madvise(block, BYTES, MADV_DONTNEED); }
static void protect_inside(void *block) {
    mprotect((void *)(((uintptr_t)block + 4095) & ~(uintptr_t)4095), BYTES - 8192, PROT_NONE);
}

static void *aligned(void) { return aligned_alloc(4096, BYTES); }
static void *plain(void) { return malloc(BYTES); }

static int use(void *(*allocate)(void), void (*change)(void *)) {
    int other = 0;
    for (int i = 0; i < 4; i++) {
        void *block = allocate();
        change(block);
        free(block);
    }
    for (int i = 0; i < 60; i++) {
        free(memset(allocate(), 'x', BYTES));
        char *zeros = calloc(1, BYTES);
        for (int j = 0; j < BYTES; j++) other += zeros[j] != 0;
        free(zeros);
    }
    return other;
}

int main(void) {
    // Fixes libc's threshold, so that every large block keeps its own mapping.
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    FILE *stream = tmpfile();
    file = fileno(stream);
    memset(contents, 'f', WHOLE);
    if (write(file, contents, WHOLE) != WHOLE) return 1;
    int other = use(aligned, map) + use(aligned, protect) + use(aligned, write_protect) + use(aligned, advise);
    other += use(plain, protect_inside);
    if (pread(file, now, WHOLE, 0) != WHOLE) return 2;
    printf("%d bytes other than zero, file %s\n", other, memcmp(now, contents, WHOLE) ? "changed" : "as it was");
    fclose(stream);
    return 0;
}
