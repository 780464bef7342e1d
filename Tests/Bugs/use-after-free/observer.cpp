// A subject notifies an observer that was deleted but not removed from the subject.
// finding: use-after-free
// access: call
// block: size=16 offset=0 state=quarantined
// stack-access: notify
// stack-free: delete_observer
// stack-alloc: make_observer
// exit: 139
// options: isolated_per_context=0

#include "../bug.h"

struct Observer {
    virtual void changed(int value) { last = value; }
    long last = 0;
};

struct Subject {
    Observer *observer = nullptr;
};

FRAME Observer *make_observer() {
    Observer *observer = new Observer();
    HOLD(observer);
    return observer;
}

FRAME void delete_observer(Observer *observer) {
    operator delete(observer);
    KEEP_FRAME();
}

FRAME void notify(Subject &subject) {
    Observer *observer = subject.observer;
    if (!observer) return;
    observer->changed(3);
    HOLD(observer);
}

int main() {
    Subject subject;
    subject.observer = make_observer();
    notify(subject);
    printf("%ld\n", subject.observer->last);
    delete_observer(subject.observer);
#ifdef FIXED
    subject.observer = nullptr;
#endif
    notify(subject);
}
