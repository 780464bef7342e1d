// A counter is written through the pointer in a freed statistics record.
// finding: use-after-free
// access: write
// block: size=40 offset=0 state=quarantined language=unknown
// stack-access: count_event
// stack-free: drop_statistics
// stack-alloc: make_statistics
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

struct statistics {
    long *events;
    long unused[4];
};

static long events;

FRAME struct statistics *make_statistics(void) {
    struct statistics *statistics = malloc(sizeof *statistics);
    statistics->events = &events;
    return statistics;
}

FRAME void drop_statistics(struct statistics *statistics) {
    free(statistics);
    KEEP_FRAME();
}

FRAME void count_event(struct statistics *statistics) {
    *statistics->events = 1;
    HOLD(statistics);
}

int main(void) {
    struct statistics *statistics = make_statistics();
#ifdef FIXED
    count_event(statistics);
    drop_statistics(statistics);
#else
    drop_statistics(statistics);
    count_event(statistics);
#endif
    printf("%ld\n", events);
    return 0;
}
