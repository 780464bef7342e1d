// The kernel writes into a freed buffer passed to fstat(2), a call that the runtime does not check.
// finding: write-after-free
// access: write
// block: size=200 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_record
// stack-alloc: make_record
// options: isolated_per_context=0
// exit: 99
// detail: found_by="exit"

#include "../bug.h"
#include <sys/stat.h>

struct record {
    struct stat status;
    char unused[200 - sizeof(struct stat)]; // pads to 200 bytes: struct stat differs among processors
};

FRAME struct record *make_record(void) {
    struct record *record = malloc(sizeof *record);
    record->unused[0] = 0;
    return record;
}

FRAME void drop_record(struct record *record) {
    free(record);
    KEEP_FRAME();
}

FRAME int ask(struct record *record) {
    int result = fstat(0, &record->status);
    KEEP_FRAME();
    return result;
}

int main(void) {
    struct record *record = make_record();
#ifndef FIXED
    drop_record(record);
#endif
    printf("%d\n", ask(record));
#ifdef FIXED
    drop_record(record);
#endif
    return 0;
}
