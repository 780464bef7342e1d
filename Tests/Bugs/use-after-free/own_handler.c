// A program has its own SIGSEGV handler: the finding is reported before the handler runs and ends the program.
// finding: use-after-free
// access: read
// block: size=64 offset=0 state=quarantined language=unknown
// stack-access: use_record
// stack-free: drop_record
// stack-alloc: make_record
// exit: 42
// confidence: inferred
// stdout: handler ran
// options: isolated_per_context=0

#define _GNU_SOURCE
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

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    static const char text[] = "handler ran\n";
    if (signal != SIGSEGV || !info || write(1, text, sizeof text - 1) < 0) _exit(1);
    _exit(42);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    struct record *record = make_record();
#ifdef FIXED
    printf("%ld\n", use_record(record));
    drop_record(record);
#else
    drop_record(record);
    printf("%ld\n", use_record(record));
#endif
    return 0;
}
