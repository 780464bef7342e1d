// The destructor of a pthread key frees a block that its thread has freed already.
// finding: double-free
// access: free
// block: size=56 offset=0 state=quarantined language=unknown
// stack-access: drop_at_exit
// stack-free: drop_by_hand
// stack-alloc: make_context
// exit: 134
// confidence: exact
// libs: -lpthread
// options: isolated_per_context=0

#include "../bug.h"
#include <pthread.h>

static pthread_key_t key;

FRAME char *make_context(void) {
    char *context = malloc(56);
    strcpy(context, "context");
    return context;
}

FRAME void drop_by_hand(char *context) {
    free(context);
    KEEP_FRAME();
}

FRAME void drop_at_exit(void *context) {
    free(context);
    KEEP_FRAME();
}

FRAME void *body(void *unused) {
    char *context = make_context();
    pthread_setspecific(key, context);
    puts(pthread_getspecific(key));
    drop_by_hand(context);
#ifdef FIXED
    pthread_setspecific(key, NULL);
#endif
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_key_create(&key, drop_at_exit);
    pthread_create(&thread, NULL, body, NULL);
    pthread_join(thread, NULL);
    return 0;
}
