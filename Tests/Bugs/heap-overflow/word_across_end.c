// A pointer that lies half in the last four bytes of a block and half in the gap behind is read and dereferenced.
// finding: heap-overflow
// access: read
// block: size=20 state=live
// stack-access: second_word
// stack-alloc: make_record
// exit: 139
// confidence: inferred
// detail: read_from="gap beside a block"

#include "../bug.h"

struct record {
    long number;
    const char *words[2];
};

FRAME struct record *make_record(size_t size) {
    struct record *record = malloc(size);
    memset(record, 0, size);
    record->words[0] = "first";
    KEEP_FRAME();
    return record;
}

FRAME char second_word(struct record *record) {
    char first = record->words[1][0];
    HOLD(record);
    return first;
}

int main(void) {
#ifdef FIXED
    struct record *record = make_record(sizeof *record);
    record->words[1] = "second";
#else
    struct record *record = make_record(20);
#endif
    printf("%c\n", second_word(record));
    free(record);
    return 0;
}
