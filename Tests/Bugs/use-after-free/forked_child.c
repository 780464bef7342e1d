// A forked child dereferences a pointer in a record that was freed before the fork.
// finding: use-after-free
// access: read
// block: size=64 offset=0 state=quarantined language=unknown
// stack-access: use_record
// stack-free: drop_record
// stack-alloc: make_record
// exit: 7
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"
#include <sys/wait.h>
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

int main(void) {
    struct record *record = make_record();
#ifndef FIXED
    drop_record(record);
#endif
    pid_t child = fork();
    if (!child) _exit(use_record(record) == 6 ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? 7 : 0;
}
