// A file is mapped over a block; freeing the block must not change the file.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { bytes = 200 << 10 };

int main(void) {
    static char contents[bytes];
    FILE *file = tmpfile();
    void *block;
    memset(contents, 'x', bytes);
    if (!file || write(fileno(file), contents, bytes) != bytes || posix_memalign(&block, 4096, bytes)) return 1;
    if (mmap(block, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fileno(file), 0) == MAP_FAILED) return 2;
    free(block);
    int changed = 0;
    if (pread(fileno(file), contents, bytes, 0) != bytes) return 3;
    for (int i = 0; i < bytes; i++) changed += contents[i] != 'x';
    printf("%d bytes changed\n", changed);
    fclose(file);
    return 0;
}
