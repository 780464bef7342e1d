// A record behind the end of a table is read by a function whose arguments point to other blocks.
// finding: heap-overflow
// access: read
// block: size=80 offset=104 state=live
// stack-access: value_of
// stack-alloc: make_table
// exit: 139
// confidence: inferred
// detail: evidence="points into this block|nearest to the address"

#include "../bug.h"

struct record {
    long number;
    long value;
};

FRAME struct record *make_table(void) {
    struct record *table = malloc(5 * sizeof *table);
    for (int i = 0; i < 5; i++) table[i] = (struct record){i, i};
    return table;
}

FRAME long value_of(struct record **tables, struct record **others) {
    struct record *record = *tables;
    record += 6;
    FORGET(record);
    long value = record->value;
    HOLD(others);
    return value;
}

int main(void) {
    struct record **tables = malloc(sizeof *tables), **others = malloc(sizeof *others);
    *others = make_table();
    *tables = make_table();
#ifdef FIXED
    *tables -= 3;
#endif
    printf("%ld\n", value_of(tables, others));
    return 0;
}
