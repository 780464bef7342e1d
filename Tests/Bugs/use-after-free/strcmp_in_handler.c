// A signal handler compares a freed string. The handler does not interrupt the runtime.
// finding: use-after-free
// access: read
// block: size=20 offset=0 state=quarantined language=unknown
// stack-access: on_signal
// stack-free: drop_name
// stack-alloc: make_name
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="strcmp"
// static: libc's memory and string functions are no witnesses

#include "../bug.h"
#include <signal.h>

static char *volatile name;
static volatile int differs;

FRAME void make_name(void) {
    name = calloc(1, 20);
    KEEP_FRAME();
}

FRAME void drop_name(void) {
    free(name);
    KEEP_FRAME();
}

FRAME void on_signal(int signal) {
    (void)signal;
    differs = strcmp("some", name) != 0;
    KEEP_FRAME();
}

int main(void) {
    make_name();
    signal(SIGUSR1, on_signal);
#ifndef FIXED
    drop_name();
#endif
    raise(SIGUSR1);
    printf("%d\n", differs);
#ifdef FIXED
    drop_name();
#endif
    return 0;
}
