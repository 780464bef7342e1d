// Makes the same double free three times: one finding, seen three times.

#include <stdlib.h>

static void *open_it(void) { return malloc(48); }

static void close_it(void *it) {
    free(it);
}

int main(void) {
    for (int i = 0; i < 3; i++) {
        void *it = open_it();
        close_it(it);
        close_it(it);
    }
    for (int i = 0; i < 20; i++) free(open_it()); // more blocks than are isolated
    char *text = malloc(200);
    free(text);
    return 0;
}
