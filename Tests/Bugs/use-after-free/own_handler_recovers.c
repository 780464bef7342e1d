// A program recovers from the fault with siglongjmp and ends normally: the use after free is reported nevertheless.
// finding: use-after-free
// access: read
// block: size=64 offset=0 state=quarantined language=unknown
// stack-access: use_record
// stack-free: drop_record
// stack-alloc: make_record
// exit: 99
// confidence: inferred
// stdout: recovered
// options: isolated_per_context=0

#define _GNU_SOURCE
#include "../bug.h"
#include <setjmp.h>
#include <signal.h>

struct record {
    const long *value;
    long unused[7];
};

static sigjmp_buf recovery;

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

static void on_fault(int number) { siglongjmp(recovery, number); }

int main(void) {
    struct sigaction action = {.sa_handler = on_fault};
    struct record *record = make_record();
    sigaction(SIGSEGV, &action, NULL);
#ifndef FIXED
    drop_record(record);
#endif
    if (!sigsetjmp(recovery, 1)) {
        printf("%ld\n", use_record(record));
    } else {
        puts("recovered");
    }
    return 0;
}
