// No stacks are recorded: all blocks share one unknown context, of which not only the first blocks are isolated.
// options: stack_depth=0:isolated_overhead=100%

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    for (int i = 0; i < 200000; i++) {
        char *volatile block = malloc(100);
        block[99] = 1;
        free(block);
    }
    puts("done");
    return 0;
}
