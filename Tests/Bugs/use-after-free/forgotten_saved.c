// A freed block is passed to write() after the runtime has discarded the block's records.
// finding: use-after-free
// access: read
// stack-access: save_again
// options: isolated_per_context=0:retired_bytes=64k
// exit: 134
// confidence: exact
// detail: call="write" bytes="112" what="free memory"
// musl: musl has no malloc_trim

#include <fcntl.h>
#include <unistd.h>

#include "../forgotten.h"

FRAME ssize_t save_again(int file, const char *block) {
    ssize_t written = write(file, block, BYTES);
    KEEP_FRAME();
    return written;
}

int main(void) {
    char *block = forgotten_block();
#ifdef FIXED
    block = calloc(1, BYTES);
#endif
    printf("%d\n", save_again(open("/dev/null", O_WRONLY), block) == BYTES);
    return 0;
}
