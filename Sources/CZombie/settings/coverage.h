// What was watched, and why not more: noted in the process's own statistics, and added up over the processes of a run where
// `zguard run` asks for it (zg_coverage.h). Slow paths, any context; no lock.

#ifndef ZG_COVERAGE_NOTES_H
#define ZG_COVERAGE_NOTES_H

#include "include/zg_coverage.h"
#include "platform/base.h"

extern struct zg_coverage_page *zg_coverage_run; // NULL: nobody asks, or it could not be had

// A block gets no pages of its own for this reason; the time of the first is kept.
void zg_coverage_declined(enum zg_coverage_reason why);
// Maps the run's page; what was counted so far goes there. Closes the descriptor, which may be an errno value. False where it is not
// that page. At start-up.
bool zg_coverage_open(int descriptor);
// What was counted since then begins anew: in the child of a fork, after its statistics have become its own.
void zg_coverage_after_fork_in_child(void);
// A program is executed of which the run will hear nothing: it goes without the library, or is statically linked. Signal-safe.
void zg_coverage_note_unwatched_child(void);
// The run is told what has been counted since it was told last.
void zg_coverage_publish_run(void);
ZG_INLINE void zg_coverage_publish(void) {
    if (ZG_UNLIKELY(zg_coverage_run != NULL)) zg_coverage_publish_run();
}

#endif
