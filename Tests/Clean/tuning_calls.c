// The tuning and statistics functions of libc's allocator return plausible results.
// musl: musl has no mallopt

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *blocks[100];
    for (int i = 0; i < 100; i++) blocks[i] = malloc((size_t)i * 100);
    printf("%d", mallopt(M_MMAP_THRESHOLD, 100000));
    printf("%d", mallopt(M_TRIM_THRESHOLD, 100000));
    printf("%d\n", mallopt(M_ARENA_MAX, 2));
    struct mallinfo2 info = mallinfo2();
    printf("%d\n", info.uordblks + info.hblkhd >= 400000);
    int trimmed = malloc_trim(0);
    printf("%d\n", trimmed == 0 || trimmed == 1);
    FILE *sink = fopen("/dev/null", "w");
    printf("%d\n", malloc_info(0, sink));
    fclose(sink);
    for (int i = 0; i < 100; i++) free(blocks[i]);
    malloc_trim(4096);
    return 0;
}
