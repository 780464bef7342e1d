// Makes findings of signals that end the program (collect=crashes). Signal context; one crash at a time, under the
// fault lock.

#ifndef ZG_CRASH_H
#define ZG_CRASH_H

#define _GNU_SOURCE
#include <signal.h>

#include "findings/finding.h"
#include "settings/config.h"

ZG_INLINE bool zg_crash_is_wanted(void) { return zg_config.collect & zg_collect_crashes; }
// Flags: sources of information that zg_crash_describe may use.
enum zg_crash_how {
    zg_crash_ask_zguard = 1,  // asks zguard for the stacks of all threads
    zg_crash_has_message = 2, // the thread's last text on standard error is about this crash
};
// Adds signal, message, registers and threads to a finding that has its access stack already.
void zg_crash_describe(struct zg_finding *finding, int signal, const siginfo_t *info, const void *context,
                       enum zg_crash_how how);
// Whether a return address lies in libc's abort. If so, the program ends after the SIGABRT handler, unless the handler
// jumps away.
bool zg_crash_is_in_abort(uint64_t frame);
// Looks up libc's symbols for use in signal context. Call once, at start-up.
void zg_crash_start(void);
// Makes a finding of the crash itself, with the stack of the interrupted context.
void zg_crash_make(struct zg_finding *finding, int signal, const siginfo_t *info, const void *context,
                   enum zg_crash_how how);

#endif
