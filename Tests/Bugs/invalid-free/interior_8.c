// A record is freed through the address of its second member.
// finding: invalid-free
// access: free
// block: size=40 offset=8 state=live language=unknown
// stack-access: drop_record
// stack-alloc: make_record
// exit: 134
// confidence: exact
// detail: what="interior pointer|misaligned"

#include "../bug.h"

struct record {
    long id;
    long values[4];
};

FRAME struct record *make_record(void) {
    struct record *record = malloc(sizeof *record);
    record->values[0] = 4;
    return record;
}

FRAME void drop_record(void *record) {
    free(record);
    KEEP_FRAME();
}

int main(void) {
    struct record *record = make_record();
    printf("%ld\n", record->values[0]);
#ifdef FIXED
    drop_record(record);
#else
    drop_record(record->values);
#endif
    return 0;
}
