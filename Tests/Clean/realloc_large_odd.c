// Large blocks, each one byte short of whole pages, grow by realloc: nothing behind them is written.

#include <stdlib.h>
#include <string.h>

int main(void) {
    for (int round = 0; round < 4; round++) {
        size_t size = 1310719;
        char *block = malloc(size);
        memset(block, 'a', size);
        while (size < (size_t)12 << 20) {
            size_t more = 2 * size + 1;
            block = realloc(block, more);
            memset(block + size, 'a', more - size);
            size = more;
        }
        for (size_t i = 0; i < size; i += 997)
            if (block[i] != 'a') return 1;
        free(block);
    }
    return 0;
}
