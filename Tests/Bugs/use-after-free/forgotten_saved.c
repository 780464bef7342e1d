// Many blocks die, their memory is given back with all that was known of them, and one of them is written to a file.
// finding: use-after-free
// access: read
// stack-access: save_again
// options: fence_per_context=0:retired_bytes=64k
// exit: 134
// confidence: exact
// detail: call="write" bytes="112" what="free memory"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "../bug.h"

enum { COUNT = 200000, BYTES = 112 };

FRAME ssize_t save_again(int file, const char *block) {
    ssize_t written = write(file, block, BYTES);
    KEEP_FRAME();
    return written;
}

int main(void) {
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) blocks[i] = malloc(BYTES);
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    malloc_trim(0);
    char *block = blocks[COUNT / 8];
    puts("given back");
#ifdef FIXED
    block = calloc(1, BYTES);
#endif
    printf("%d\n", save_again(open("/dev/null", O_WRONLY), block) == BYTES);
    return 0;
}
