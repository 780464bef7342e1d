// A pointer is read from a freed array of pointers and dereferenced.
// finding: use-after-free
// access: read
// block: size=80 state=quarantined language=unknown
// stack-access: use_name
// stack-free: drop_names
// stack-alloc: make_names
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

FRAME const char **make_names(void) {
    const char **names = malloc(10 * sizeof *names);
    for (int i = 0; i < 10; i++) names[i] = "name";
    return names;
}

FRAME void drop_names(const char **names) {
    free(names);
    KEEP_FRAME();
}

FRAME int use_name(const char **names, int index) {
    int initial = names[index][0];
    HOLD(names);
    return initial;
}

int main(void) {
    const char **names = make_names();
#ifdef FIXED
    printf("%c\n", use_name(names, 6));
    drop_names(names);
#else
    drop_names(names);
    printf("%c\n", use_name(names, 6));
#endif
    return 0;
}
