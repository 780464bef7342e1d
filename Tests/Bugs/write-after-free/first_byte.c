// The only byte of a block of 1 byte is written after its free.
// finding: write-after-free
// access: write
// block: size=1 offset=0 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_flag
// stack-alloc: make_flag
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

FRAME char *make_flag(void) {
    char *flag = malloc(1);
    *flag = 0;
    return flag;
}

FRAME void drop_flag(char *flag) {
    free(flag);
    KEEP_FRAME();
}

FRAME void set_flag(char *flag) { *flag = 1; }

int main(void) {
    char *flag = make_flag();
#ifdef FIXED
    set_flag(flag);
    drop_flag(flag);
#else
    drop_flag(flag);
    set_flag(flag);
#endif
    puts("end");
    return 0;
}
