// Records how much was watched, and why the rest was not, in the process's statistics page.
// If `zguard run` started the process, also adds the counts to the run's page, which sums over all processes of the run
// (zg_coverage.h). Slow paths, any context; no lock.

#ifndef ZG_COVERAGE_NOTES_H
#define ZG_COVERAGE_NOTES_H

#include "include/zg_coverage.h"
#include "platform/base.h"

// NULL if the process belongs to no run, or the page cannot be mapped.
extern struct zg_coverage_page *zg_coverage_run_page;

// Notes that a block was not isolated for this reason. The first note of a reason also records the time.
void zg_coverage_declined(enum zg_coverage_reason why);
// Maps the run's page, counts this program in it, and adds the times of the coverage reasons noted so far. Closes the
// descriptor, which may be a negative errno value. Returns false if the descriptor does not refer to the run's page.
// Start-up only.
bool zg_coverage_open(int descriptor);
// Makes the child add only its own later counts to the run's page: the parent adds the inherited ones. Call after the
// child has its own statistics page.
void zg_coverage_after_fork_in_child(void);
// Counts an executed program that cannot find the page, because it runs without the library or is statically linked.
// Signal-safe.
void zg_coverage_note_unwatched_child(void);
// Counts an executed program that is left unguarded on purpose (settings/exemption.h). Signal-safe.
void zg_coverage_note_exempt(void);
// Adds to the run's page everything counted since the last call.
void zg_coverage_publish_run(void);
ZG_INLINE void zg_coverage_publish(void) {
    if (ZG_UNLIKELY(zg_coverage_run_page != NULL)) zg_coverage_publish_run();
}

#endif
