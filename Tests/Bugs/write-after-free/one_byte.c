// One byte in the middle of a freed block is written.
// finding: write-after-free
// access: write
// block: size=80 offset=33 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_name
// stack-alloc: make_name
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

FRAME char *make_name(void) {
    char *name = malloc(80);
    memset(name, 'n', 80);
    return name;
}

FRAME void drop_name(char *name) {
    free(name);
    KEEP_FRAME();
}

FRAME void write_mark(char *name) { name[33] = '!'; }

int main(void) {
    char *name = make_name();
#ifdef FIXED
    write_mark(name);
    drop_name(name);
#else
    drop_name(name);
    write_mark(name);
#endif
    puts("end");
    return 0;
}
