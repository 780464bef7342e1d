// Blocks that are allocated one after the other lie side by side, even after the program has freed others at random.
// preload

#include <stdlib.h>

#include "check.h"

enum { BLOCKS = 200000, BYTES = 40, NEAR = 256 };

static char *blocks[BLOCKS];

int main(void) {
    uint64_t state = 3, near = 0, taken = 0;
    for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(BYTES);
    for (int i = BLOCKS - 1; i > 0; i--) {
        int other = (int)(work_random(&state) % (uint64_t)(i + 1));
        char *block = blocks[i];
        blocks[i] = blocks[other];
        blocks[other] = block;
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    char *last = malloc(BYTES);
    for (; taken < BLOCKS / 2; taken++) {
        char *block = malloc(BYTES);
        uint64_t distance = block > last ? (uint64_t)(block - last) : (uint64_t)(last - block);
        near += distance <= NEAR;
        last = block;
    }
    // The quarantine's newest blocks come back one by one, and a few blocks are isolated.
    if (!CHECK(near >= taken * 8 / 10, "most blocks lie near the block that was allocated before them"))
        fprintf(stderr, "  %" PRIu64 " of %" PRIu64 "\n", near, taken);
    return check_end();
}
