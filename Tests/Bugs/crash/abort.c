// A program prints a reason and aborts (more crashes: Tests/Detection/crashing.py).
// finding: crash
// access: unknown
// stack-access: ~give_up
// options: collect=crashes
// exit: 134

#include <stdio.h>

#include "../bug.h"

FRAME void give_up(const char *why) {
#ifndef FIXED
    fprintf(stderr, "cannot go on: %s\n", why);
    abort();
#endif
    KEEP_FRAME();
    (void)why;
}

int main(void) {
    give_up("there is no disk");
    puts("done");
    return 0;
}
