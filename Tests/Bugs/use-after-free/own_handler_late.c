// A program installs its SIGSEGV handler with signal() after the free and before the use of the freed block.
// finding: use-after-free
// access: read
// block: size=64 offset=0 state=quarantined language=unknown
// stack-access: use_record
// stack-free: drop_record
// stack-alloc: make_record
// exit: 43
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"
#include <signal.h>
#include <unistd.h>

struct record {
    const long *value;
    long unused[7];
};

FRAME struct record *make_record(void) {
    static const long value = 6;
    struct record *record = malloc(sizeof *record);
    record->value = &value;
    return record;
}

FRAME void drop_record(struct record *record) {
    free(record);
    KEEP_FRAME();
}

FRAME long use_record(struct record *record) {
    long value = *record->value;
    HOLD(record);
    return value;
}

static void on_fault(int number) { _exit(number == SIGSEGV ? 43 : 1); }

int main(void) {
    struct record *record = make_record();
#ifndef FIXED
    drop_record(record);
#endif
    signal(SIGSEGV, on_fault);
    printf("%ld\n", use_record(record));
#ifdef FIXED
    drop_record(record);
#endif
    return 0;
}
