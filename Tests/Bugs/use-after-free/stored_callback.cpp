// A std::function in a deleted timer is called.
// finding: use-after-free
// access: call
// block: size=40 state=quarantined
// stack-access: ~fire_timer
// stack-free: delete_timer
// stack-alloc: make_timer
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"
#include <functional>

struct Timer {
    std::function<int()> action;
    long deadline;
};

FRAME Timer *make_timer() {
    Timer *timer = new Timer{[] { return 11; }, 5};
    HOLD(timer);
    return timer;
}

FRAME void delete_timer(Timer *timer) {
    delete timer;
    KEEP_FRAME();
}

FRAME int fire_timer(Timer *timer) {
    int result = timer->action();
    HOLD(timer);
    return result;
}

int main() {
    Timer *timer = make_timer();
#ifndef FIXED
    delete_timer(timer);
#endif
    printf("%d\n", fire_timer(timer));
#ifdef FIXED
    delete_timer(timer);
#endif
}
