// A loop runs over the end of a live block of 64 bytes and changes the freed block behind it; found at exit.
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
    static char *names[COUNT];
    for (int i = 0; i < COUNT; i++) names[i] = make_name();
    char *name = NULL;
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT && !name; j++)
            if (names[j] == names[i] + SLOT) {
                name = names[i];
                free(names[j]);
                names[j] = NULL;
            }
    int count = SLOT + 8;
#ifdef FIXED
    name = names[0], count = SIZE;
#endif
    clear_name(name, count);
    puts("end");
    return 0;
}
