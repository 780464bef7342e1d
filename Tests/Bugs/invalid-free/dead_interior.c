// A pointer to a member of a freed record is freed.
// finding: invalid-free
// access: free
// block: size=176 offset=48 state=quarantined language=unknown
// stack-access: drop_member
// stack-free: drop_record
// stack-alloc: make_record
// exit: 134
// confidence: exact
// detail: what="interior pointer"
// options: isolated_per_context=0

#include "../bug.h"

FRAME char *make_record(void) {
    char *record = malloc(176);
    strcpy(record + 48, "member");
    return record;
}

FRAME void drop_record(char *record) {
    free(record);
    KEEP_FRAME();
}

FRAME void drop_member(char *member) {
    free(member);
    KEEP_FRAME();
}

int main(void) {
    char *record = make_record();
    puts(record + 48);
#ifndef FIXED
    drop_record(record);
    drop_member(record + 48);
#else
    drop_member(record);
#endif
    return 0;
}
