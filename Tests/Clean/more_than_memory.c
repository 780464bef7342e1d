// Requests far larger than the machine's memory and swap fail with ENOMEM if the kernel refuses them.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

static void show(const char *what, void *block) {
    printf("%s %d %d\n", what, block == NULL, errno == ENOMEM);
    errno = 0;
}

int main(void) {
    struct sysinfo machine;
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
    int mode = file ? fgetc(file) : EOF;
    if (file) fclose(file);
    // Skip overcommit mode 1, which grants every request. Skip if sysinfo does not tell the size to request.
    if (mode == '1' || sysinfo(&machine)) return 0;
    volatile size_t more = 8 * (machine.totalram + machine.totalswap) * machine.mem_unit;
    char *block = strdup("kept");
    void *untouched = &block;
    errno = 0;
    show("malloc", malloc(more));
    show("calloc", calloc(more / 16, 16));
    show("realloc", realloc(block, more));
    show("aligned_alloc", aligned_alloc(4096, more));
    printf("%d %d\n", posix_memalign(&untouched, 4096, more) == ENOMEM, untouched == &block);
    puts(block);
    free(block);
    return 0;
}
