// A signal that ends the program, as a finding (collect=crashes). Signal context; one crash at a time, under the fault lock.

#ifndef ZG_CRASH_H
#define ZG_CRASH_H

#define _GNU_SOURCE
#include <signal.h>

#include "findings/finding.h"
#include "settings/config.h"

ZG_INLINE bool zg_crash_is_wanted(void) { return zg_config.collect & zg_collect_crashes; }
// Completes a finding of what ends the program, which has its stack, with what is known of every crash.
enum zg_crash_how {
    zg_crash_asks = 1,      // zguard takes the stacks of all threads
    zg_crash_has_words = 2, // the program's last words to standard error are about this
};
void zg_crash_describe(struct zg_finding *finding, int signal, const siginfo_t *info, const void *context,
                       enum zg_crash_how how);
// A return address out of libc's abort: the program ends, whatever its handler did, unless that jumped away.
bool zg_crash_is_in_abort(uint64_t frame);
// Looks up what is needed later. Start-up.
void zg_crash_start(void);
// A finding of the crash itself.
void zg_crash_make(struct zg_finding *finding, int signal, const siginfo_t *info, const void *context,
                   enum zg_crash_how how);

#endif
