// With on_finding=continue, strncpy() goes on into the guard page of an isolated block, without a second finding.
// finding: heap-overflow
// access: write
// block: size=100 offset=100 state=live language=unknown
// stack-access: fill_field
// stack-alloc: make_field
// options: on_finding=continue
// exit: 99
// confidence: exact
// detail: call="strncpy" bytes="200" excess="100"
// stdout: text
// static: libc's memory and string functions are no witnesses

#include "../bug.h"

#ifdef FIXED
enum { room = 200 };
#else
enum { room = 100 };
#endif

FRAME char *make_field(void) {
    char *field = malloc(room);
    KEEP_FRAME();
    return field;
}

FRAME void fill_field(char *field, const char *text) {
    strncpy(field, text, 200); // fills the rest with zeros
    KEEP_FRAME();
}

int main(void) {
    char *field = make_field();
    fill_field(field, "text");
    puts(field);
    free(field);
    return 0;
}
