// A busy call site frees far more than the quarantine holds; the one block of a rare call site must stay quarantined.
// finding: double-free
// access: free
// block: size=720 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_session
// stack-alloc: make_session
// options: quarantine_bytes=1m:isolated_per_context=0
// exit: 134
// confidence: exact

#include "../bug.h"

FRAME char *make_session(void) {
    char *session = malloc(720);
    session[0] = 's';
    return session;
}

FRAME void drop_session(char *session) {
    free(session);
    KEEP_FRAME();
}

FRAME void drop_again(char *session) {
    free(session);
    KEEP_FRAME();
}

FRAME void work(void) {
    char *message = malloc(200);
    message[0] = 'm';
    free(message);
    KEEP_FRAME();
}

int main(void) {
    char *session = make_session();
    drop_session(session);
    for (int i = 0; i < 100000; i++) work();
#ifdef FIXED
    session = make_session();
#endif
    drop_again(session);
    return 0;
}
