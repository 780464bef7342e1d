// Default options, start and end of a guarded test bundle. Cold; takes no lock.

#define _GNU_SOURCE
#include "include/zg_testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// With a fifth of the time the first blocks of all stacks get pages of their own in each test anew, and most of the next ones.
// A test function is named by stacks that are recorded whole.
// The mappings keep the contents of what had pages of its own: without them a test cannot go on.
const char zg_default_options[] = "on_finding=continue:error_text=headline:quarantine_bytes=32m:"
                                  "quarantine_per_context=16:fence_overhead=20%:stack_overhead=20%:mappings=48000";

// Registered before anybody else's handlers, so it runs after them: what they print and write is complete, and no
// finding of theirs is missed. Only the libraries' destructors are left, which a changed status has to skip.
static void ending(int status, void *unused) {
    (void)unused;
    int changed = zg_testing_ending(status);
    if (changed == status) return;
    fflush(NULL);
    _exit(changed);
}

__attribute__((constructor(102))) static void registers_end(void) { on_exit(ending, NULL); }
__attribute__((constructor)) static void start(void) { zg_testing_started(); }
