// The same block freed twice, three times over, and a write after free that is found at the end.

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
    for (int i = 0; i < 20; i++) free(open_it()); // beyond those that have pages of their own
    char *text = malloc(200);
    free(text);
    return 0;
}
