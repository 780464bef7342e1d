// Sets the default options of a guarded test bundle and calls its start and exit hooks. Cold; takes no lock.

#define _GNU_SOURCE
#include "include/zg_testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// isolated_overhead: with 20 % of the CPU time, the first blocks of each allocation stack are isolated again in each
// test, and most later ones too. stack_overhead: only complete stacks contain the test function. mappings: enough to
// keep the contents of freed isolated blocks, which a test needs to go on after a finding.
const char zg_default_options[] = "on_finding=continue:error_text=headline:quarantine_bytes=32m:"
                                  "quarantine_per_context=16:isolated_overhead=20%:stack_overhead=20%:mappings=48000";

// Registered first, so it runs after all other exit handlers: their output is complete, and their findings are counted.
// A changed status requires _exit, which skips the libraries' destructors.
static void exit_handler(int status, void *unused) {
    (void)unused;
    int changed = zg_testing_ending(status);
    if (changed == status) return;
    fflush(NULL);
    _exit(changed);
}

__attribute__((constructor(102))) static void register_exit_handler(void) { on_exit(exit_handler, NULL); }
__attribute__((constructor)) static void start(void) { zg_testing_started(); }
