// Every allocation function keeps the alignment it promises, blocks do not overlap, and bad alignments are refused.
// musl: musl has no pvalloc

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int aligned(void *block, size_t alignment, size_t size) {
    if (!block || (uintptr_t)block % alignment) return 0;
    memset(block, 0x11, size);
    return 1;
}

int main(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int good = 1;
    for (size_t size = 1; size < 9000; size = size * 5 / 4 + 1) {
        void *plain = malloc(size), *zeroed = calloc(size, 3), *moved = realloc(NULL, size);
        // C23 (7.24.3) aligns blocks of up to 8 bytes only for objects that fit. Check the lowest bit, used for tags.
        size_t promised = size > 8 ? 16 : 2;
        good &= aligned(plain, promised, size) && aligned(zeroed, size > 2 ? 16 : 2, size * 3);
        good &= aligned(moved, promised, size);
        for (size_t alignment = 8; alignment <= 1 << 21; alignment *= 4) {
            void *posix = NULL, *c11 = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
            void *old = memalign(alignment, size);
            good &= posix_memalign(&posix, alignment, size) == 0 && aligned(posix, alignment, size);
            good &= aligned(c11, alignment, size) && aligned(old, alignment, size);
            free(old);
            free(posix);
            free(c11);
        }
        void *on_page = valloc(size), *whole_pages = pvalloc(size);
        good &= aligned(on_page, page, size) && aligned(whole_pages, page, (size + page - 1) / page * page);
        free(whole_pages);
        free(on_page);
        free(moved);
        free(zeroed);
        free(plain);
    }
    printf("%d\n", good);
    void *untouched = &good;
    volatile size_t odd = 3, small = 4, none = 0;
    printf("%d", posix_memalign(&untouched, odd, 10) == EINVAL);
    printf(" %d", posix_memalign(&untouched, small, 10) == EINVAL);
    printf(" %d", posix_memalign(&untouched, none, 10) == EINVAL);
    printf(" %d\n", untouched == &good);
    void *rounded = memalign(24, 10);
    printf("%d\n", (uintptr_t)rounded % 32 == 0);
    free(rounded);
    return 0;
}
