// A loop writes past a live block of 64 bytes into the freed block behind it; the change is found at exit.
// finding: heap-overflow
// access: write
// block: size=64 offset=64 state=live
// stack-access: - (the writer is gone)
// stack-alloc: make_name
// exit: 99
// confidence: inferred
// options: isolated_per_context=0
// detail: found_by="exit" length="8" evidence="same as the last bytes"

#include "../bug.h"

enum { COUNT = 64, SLOT = 64, SIZE = 64 };

FRAME char *make_name(void) {
    char *name = malloc(SIZE);
    memset(name, 'n', SIZE);
    return name;
}

FRAME void clear_name(char *name, int count) {
    for (int i = 0; i < count; i++) ((volatile char *)name)[i] = '.';
}

int main(void) {
    static void *names[COUNT];
    for (int i = 0; i < COUNT; i++) names[i] = make_name();
    int behind, front = find_neighbours(names, COUNT, SLOT, &behind);
    char *name = front < 0 ? NULL : names[front];
    if (name) {
        free(names[behind]);
        names[behind] = NULL;
    }
    int count = SLOT + 8;
#ifdef FIXED
    name = names[0], count = SIZE;
#endif
    clear_name(name, count);
    puts("end");
    return 0;
}
