// Frees a block twice, which makes one finding. With an argument it prints the block's address in between, and waits
// for the end of standard input.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words) {
    char byte;
    (void)words;
    void *volatile block = malloc(40);
    free(block);
    if (count > 1) {
        dprintf(1, "%p\n", block);
        while (read(0, &byte, 1) > 0) {
        }
    }
    free(block);
    return 0;
}
