// One bit of a freed flag word is set.
// finding: write-after-free
// access: write
// block: size=48 offset=40 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_task
// stack-alloc: make_task
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

struct task {
    long data[5];
    unsigned flags;
    int priority;
};

FRAME struct task *make_task(void) {
    struct task *task = calloc(1, sizeof *task);
    task->priority = 3;
    return task;
}

FRAME void drop_task(struct task *task) {
    free(task);
    KEEP_FRAME();
}

FRAME void mark_done(struct task *task) { task->flags |= 2; }

int main(void) {
    struct task *task = make_task();
#ifdef FIXED
    mark_done(task);
    drop_task(task);
#else
    drop_task(task);
    mark_done(task);
#endif
    puts("end");
    return 0;
}
