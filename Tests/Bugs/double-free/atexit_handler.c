// A cleanup function registered with atexit frees a block that the program has freed already.
// finding: double-free
// access: free
// block: size=40 offset=0 state=quarantined language=unknown
// stack-access: clean_up
// stack-free: close_settings
// stack-alloc: make_settings
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

static char *settings;

FRAME char *make_settings(void) {
    char *made = malloc(40);
    strcpy(made, "verbose=1");
    return made;
}

FRAME void close_settings(void) {
    free(settings);
#ifdef FIXED
    settings = NULL;
#endif
    KEEP_FRAME();
}

FRAME void clean_up(void) {
    free(settings);
    KEEP_FRAME();
}

int main(void) {
    settings = make_settings();
    atexit(clean_up);
    puts(settings);
    close_settings();
    return 0;
}
