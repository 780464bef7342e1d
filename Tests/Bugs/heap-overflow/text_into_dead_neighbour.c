// A text runs over the end of a live block and changes the freed block behind it; found at exit.
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
    static char *names[COUNT];
    for (int i = 0; i < COUNT; i++) names[i] = make_name();
    char *name = NULL;
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT && !name; j++)
            if (names[j] == names[i] + SIZE) {
                name = names[i];
                free(names[j]);
                names[j] = NULL;
            }
#ifdef FIXED
    copy_name(names[0], "a short name");
#else
    copy_name(name, "a name that has more than thirty-two bytes");
#endif
    puts("end");
    return 0;
}
