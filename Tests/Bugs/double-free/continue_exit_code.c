// With on_finding=continue a program that exits with a code other than 0 keeps this exit code despite a finding.
// finding: double-free
// access: free
// block: size=24 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_flag
// stack-alloc: make_flag
// options: on_finding=continue:isolated_per_context=0
// exit: 3
// confidence: exact

#include "../bug.h"

FRAME char *make_flag(void) {
    char *flag = malloc(24);
    flag[0] = 'f';
    return flag;
}

FRAME void drop_flag(char *flag) {
    free(flag);
    KEEP_FRAME();
}

FRAME void drop_again(char *flag) {
    free(flag);
    KEEP_FRAME();
}

int main(void) {
    char *flag = make_flag();
    drop_flag(flag);
#ifdef FIXED
    flag = make_flag();
#endif
    drop_again(flag);
    return 3;
}
