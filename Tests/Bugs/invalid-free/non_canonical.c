// A pointer with a tag in its upper bits is freed: the address is non-canonical.
// finding: invalid-free
// access: free
// stack-access: drop_tagged
// exit: 134
// confidence: exact

#include "../bug.h"

static const uintptr_t tag = (uintptr_t)0x5a << 56;

FRAME char *make_tagged(void) {
    char *made = malloc(32);
    strcpy(made, "tagged");
    return (char *)((uintptr_t)made | tag);
}

FRAME void drop_tagged(char *tagged) {
    free(tagged);
    KEEP_FRAME();
}

int main(void) {
    char *tagged = make_tagged();
    char *plain = (char *)((uintptr_t)tagged & ~tag);
    puts(plain);
#ifdef FIXED
    drop_tagged(plain);
#else
    drop_tagged(tagged);
    HOLD(plain);
#endif
    return 0;
}
