// Decodes instruction words from standard input. Prints a line for each word: its access (0 none, 1 read, 2 write, 3
// execute), the base register, and the offset.
#include <inttypes.h>
#include <stdio.h>

#include "platform/arch_aarch64_decode.h"

int main(void) {
    uint32_t word;
    while (fread(&word, sizeof word, 1, stdin) == 1) {
        struct zg_a64 it = zg_a64_decode(word);
        bool reads = it.kind == zg_a64_load || it.kind == zg_a64_load_exclusive || it.kind == zg_a64_read;
        int does = !it.kind ? 0 : reads ? 1 : it.kind >= zg_a64_jump ? 3 : 2;
        printf("%d %d %" PRId64 "\n", does, it.base, it.update == zg_a64_after ? 0 : it.offset);
    }
}
