// Large blocks are protected before their pages are first touched, and then freed; their memory is used again.
// options: quarantine_bytes=0:isolated_per_context=0:isolated_overhead=0
// qemu-user: unguarded it dies there, of pages that were protected before they were touched
// musl: musl has no mallopt

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static char *protected_block(size_t bytes, int protection) {
    char *block = malloc(bytes);
    uintptr_t first = ((uintptr_t)block + 4095) & ~(uintptr_t)4095, end = ((uintptr_t)block + bytes) & ~(uintptr_t)4095;
    mprotect((void *)first, end - first, protection);
    return block;
}

int main(void) {
    // Fixes libc's threshold, so that every large block keeps its own mapping.
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    long other = 0;
    for (size_t bytes = 160000; bytes <= 4 << 20; bytes += bytes / 3) {
        for (int i = 0; i < 8; i++) free(protected_block(bytes, i & 1 ? PROT_READ : PROT_NONE));
        for (int i = 0; i < 20; i++) {
            free(memset(malloc(bytes), 'x', bytes));
            char *zeros = calloc(1, bytes);
            for (size_t j = 0; j < bytes; j++) other += zeros[j] != 0;
            free(zeros);
        }
    }
    printf("%ld bytes other than zero\n", other);
    return 0;
}
