// A text is written past the end of a live block into the freed block behind it; the change is found at exit.
// finding: heap-overflow
// access: write
// block: size=32 offset=32 state=live
// stack-access: - (the writer is gone)
// stack-alloc: make_name
// exit: 99
// confidence: inferred
// options: isolated_per_context=0
// detail: found_by="exit" length="11" evidence="text runs on"

#include "../bug.h"

enum { COUNT = 64, SIZE = 32 };

FRAME char *make_name(void) {
    char *name = calloc(1, SIZE);
    KEEP_FRAME();
    return name;
}

FRAME void copy_name(char *to, const char *from) {
    while ((*(volatile char *)to++ = *from++)) {
    }
}

int main(void) {
    static void *names[COUNT];
    for (int i = 0; i < COUNT; i++) names[i] = make_name();
    int behind, front = find_neighbours(names, COUNT, SIZE, &behind);
    char *name = front < 0 ? NULL : names[front];
    if (name) {
        free(names[behind]);
        names[behind] = NULL;
    }
#ifdef FIXED
    copy_name(names[0], "a short name");
#else
    copy_name(name, "a name that has more than thirty-two bytes");
#endif
    puts("end");
    return 0;
}
