// strdup() copies a freed string.
// finding: use-after-free
// access: read
// block: size=12 offset=5 state=quarantined language=unknown
// stack-access: copy_name
// stack-free: drop_name
// stack-alloc: make_name
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="strdup"
// static: libc's memory and string functions are no witnesses

#include "../bug.h"

FRAME char *make_name(void) {
    char *name = malloc(12);
    for (int i = 0; i < 12; i++) name[i] = "name of one"[i];
    return name;
}

FRAME void drop_name(char *name) {
    free(name);
    KEEP_FRAME();
}

FRAME char *copy_name(const char *name) {
    char *copy = strdup(name + 5);
    KEEP_FRAME();
    return copy;
}

int main(void) {
    char *name = make_name();
#ifndef FIXED
    drop_name(name);
#endif
    char *copy = copy_name(name);
    puts(copy);
    free(copy);
#ifdef FIXED
    drop_name(name);
#endif
    return 0;
}
