// Two shared_ptr made from one raw pointer have separate reference counts, so both delete the object.
// finding: double-free
// access: free
// block: size=32 offset=0 state=quarantined
// stack-access: ~drop_first
// stack-free: ~drop_second
// stack-alloc: make_session
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"
#include <memory>

struct Session {
    long values[4];
};

FRAME Session *make_session() {
    Session *session = new Session();
    session->values[0] = 9;
    return session;
}

FRAME void drop_first(std::shared_ptr<Session> &first) {
    first.reset();
    KEEP_FRAME();
}

FRAME void drop_second(std::shared_ptr<Session> &second) {
    second.reset();
    KEEP_FRAME();
}

int main() {
    Session *session = make_session();
    std::shared_ptr<Session> first(session);
#ifdef FIXED
    std::shared_ptr<Session> second(first);
#else
    std::shared_ptr<Session> second(session);
#endif
    printf("%ld\n", first->values[0] + second->values[0]);
    drop_second(second);
    drop_first(first);
}
