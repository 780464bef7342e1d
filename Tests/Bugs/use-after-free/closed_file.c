// A line is written to a closed stream: libc takes the lock of the freed FILE.
// finding: use-after-free
// block: state=quarantined language=unknown
// stack-access: ~log_line
// stack-free: ~close_log
// stack-alloc: ~open_log
// exit: 139
// confidence: inferred
// options: isolated_per_context=0
// musl: the fill looks like a lock that another thread holds

#include "../bug.h"

FRAME FILE *open_log(void) {
    FILE *log = fopen("/dev/null", "w");
    KEEP_FRAME();
    return log;
}

FRAME void close_log(FILE *log) {
    fclose(log);
    KEEP_FRAME();
}

FRAME int log_line(FILE *log) {
    int result = fputs("line\n", log);
    HOLD(log);
    return result;
}

int main(void) {
    FILE *log = open_log();
#ifdef FIXED
    printf("%d\n", log_line(log) >= 0);
    close_log(log);
#else
    close_log(log);
    printf("%d\n", log_line(log) >= 0);
#endif
    return 0;
}
