// A shared_ptr in a deleted holder is copied: its reference count is incremented through the fill.
// finding: use-after-free
// access: read|write
// block: size=40 state=quarantined
// stack-access: ~copy_session
// stack-free: delete_holder
// stack-alloc: make_holder
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"
#include <memory>

struct Holder {
    std::shared_ptr<long> session;
    long unused[3] = {1, 2, 3};
};

FRAME Holder *make_holder() {
    Holder *holder = new Holder();
    HOLD(holder);
    return holder;
}

FRAME void delete_holder(Holder *holder) {
    delete holder;
    KEEP_FRAME();
}

FRAME long copy_session(const Holder *holder) {
    std::shared_ptr<long> session = holder->session;
    HOLD(holder);
    return session ? *session : 0;
}

int main() {
    Holder *holder = make_holder();
    holder->session = std::make_shared<long>(8);
#ifndef FIXED
    delete_holder(holder);
#endif
    printf("%ld\n", copy_session(holder));
#ifdef FIXED
    delete_holder(holder);
#endif
}
