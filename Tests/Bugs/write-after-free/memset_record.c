// A whole freed record is cleared.
// finding: write-after-free
// access: write
// block: size=104 offset=0 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_record
// stack-alloc: make_record
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0:witnesses=0

#include "../bug.h"

struct record {
    long values[13];
};

FRAME struct record *make_record(void) {
    struct record *record = malloc(sizeof *record);
    record->values[0] = 1;
    return record;
}

FRAME void drop_record(struct record *record) {
    free(record);
    KEEP_FRAME();
}

FRAME void clear_record(struct record *record) {
    memset(record, 0, sizeof *record);
    KEEP_FRAME();
}

int main(void) {
    struct record *record = make_record();
#ifdef FIXED
    clear_record(record);
    drop_record(record);
#else
    drop_record(record);
    clear_record(record);
#endif
    puts("end");
    return 0;
}
