// A fortified program's strcpy() copies 12 bytes to a block of 10, whose size the compiler does not know.
// finding: heap-overflow
// access: write
// block: size=10 offset=10 state=live language=unknown
// stack-access: ~store_name
// stack-alloc: make_name
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="strcpy" bytes="12" excess="2"
// static: libc's memory and string functions are no witnesses

#include "../bug.h"

#ifdef FIXED
enum { room = 12 };
#else
enum { room = 10 };
#endif

// With -D_FORTIFY_SOURCE, calls of strcpy become calls of this function.
char *__strcpy_chk(char *to, const char *from, size_t room);

FRAME char *make_name(void) {
    char *name = malloc(room);
    KEEP_FRAME();
    return name;
}

FRAME void store_name(char *name, const char *from) {
    __strcpy_chk(name, from, 100);
    KEEP_FRAME();
}

int main(void) {
    char *name = make_name();
    store_name(name, "eleven more");
    puts(name);
    free(name);
    return 0;
}
