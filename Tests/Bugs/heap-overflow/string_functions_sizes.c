// Blocks of 1, 4, 6, 8 and 13 bytes are passed to functions that need one byte more: each of the 15 calls is a finding.
// finding: heap-overflow
// access: read|write
// block: state=live language=unknown
// stack-access: use_block
// stack-alloc: make_block
// options: isolated_per_context=0:on_finding=continue
// exit: 99
// confidence: exact
// detail: call="strlen|strcpy|strtol"
// count: 15
// static: libc's memory and string functions are no witnesses

#include "../bug.h"

static char text[16];
static size_t total;

FRAME char *make_block(size_t bytes) {
    char *block = malloc(bytes);
    KEEP_FRAME();
    return block;
}

// One call site for each function and size: equal findings would be counted as one.
#define SITES(first)                                                                                                   \
    case first: total += strlen(block); break;                                                                         \
    case first + 1: strcpy(block, text); break;                                                                        \
    case first + 2: strtol(block, NULL, 10); break;
FRAME void use_block(int site, char *block) {
    switch (site) {
        SITES(0)
        SITES(3)
        SITES(6)
        SITES(9)
        SITES(12)
    }
    KEEP_FRAME();
}

int main(void) {
    static const size_t sizes[] = {1, 4, 6, 8, 13};
    for (int i = 0; i < 5; i++) {
        size_t bytes = sizes[i];
        memset(text, '1', sizeof text);
        text[bytes] = 0;
        for (int function = 0; function < 3; function++) {
#ifdef FIXED
            char *block = make_block(bytes + 1);
            block[bytes] = 0;
#else
            // The terminator lies in the next slot: a function that runs past the end of the block stops there.
            char *block = make_block(bytes), *next = make_block(bytes);
            next[0] = 0;
#endif
            memset(block, '1', bytes);
            use_block(3 * i + function, block);
        }
    }
    puts("done");
    return 0;
}
