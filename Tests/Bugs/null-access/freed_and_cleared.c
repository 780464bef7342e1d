// A pointer set to null after the free is used: a null access, not a use after free.
// finding: null-access
// access: read
// address: 0x18
// stack-access: use_record
// exit: 139
// confidence: exact

#include "../bug.h"

struct record {
    long unused[3];
    long value;
};

FRAME struct record *make_record(void) {
    struct record *record = calloc(1, sizeof *record);
    record->value = 4;
    return record;
}

FRAME void drop_record(struct record **record) {
    free(*record);
    *record = NULL;
}

FRAME long use_record(struct record *record) {
    long value = record->value;
    HOLD(record);
    return value;
}

int main(void) {
    struct record *record = make_record();
#ifdef FIXED
    printf("%ld\n", use_record(record));
    drop_record(&record);
#else
    drop_record(&record);
    printf("%ld\n", use_record(record));
#endif
    return 0;
}
