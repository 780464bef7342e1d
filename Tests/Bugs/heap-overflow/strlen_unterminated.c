// strlen() reads a name that fills its block of 8 bytes, and the terminator that follows by chance.
// finding: heap-overflow
// access: read
// block: size=8 offset=8 state=live language=unknown
// stack-access: measure_name
// stack-alloc: make_name
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="strlen" bytes="9" excess="1"
// static: libc's memory and string functions are no witnesses

#include "../bug.h"

#ifdef FIXED
enum { room = 9 };
#else
enum { room = 8 };
#endif

FRAME char *make_name(void) {
    char *name = calloc(1, room);
    KEEP_FRAME();
    return name;
}

FRAME int measure_name(const char *name) {
    int length = (int)strlen(name);
    KEEP_FRAME();
    return length;
}

int main(void) {
    char *name = make_name();
    for (int i = 0; i < 8; i++) name[i] = 'n';
    printf("%d\n", measure_name(name));
    free(name);
    return 0;
}
