// Frees a block twice: one finding. With an argument it waits for standard input to end first.
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words) {
    char byte;
    (void)words;
    if (count > 1)
        while (read(0, &byte, 1) > 0) {
        }
    void *volatile block = malloc(40);
    free(block);
    free(block);
    return 0;
}
