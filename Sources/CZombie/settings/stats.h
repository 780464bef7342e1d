// The process's own statistics page: where counters are raised and degradations noted.
// Before the page is published (and where it cannot be) the counters live in ordinary memory.

#ifndef ZG_STATS_H
#define ZG_STATS_H

#include "include/zg_stats_page.h"
#include "platform/base.h"

extern struct zg_stats_page *zg_stats;

ZG_INLINE void zg_stats_add(enum zg_counter counter, uint64_t by) {
    __atomic_fetch_add(&zg_stats->counters[counter], by, __ATOMIC_RELAXED);
}
ZG_INLINE void zg_stats_set(enum zg_counter counter, uint64_t value) { zg_store(&zg_stats->counters[counter], value); }
ZG_INLINE uint64_t zg_stats_get(enum zg_counter counter) { return zg_load(&zg_stats->counters[counter]); }
void zg_stats_raise_peak(enum zg_counter peak, uint64_t value);
// A program is executed without the library: counted here, and where it is the child of a fork that does it, in the parent's page as
// well, for the child's ends with the exec. Signal-safe.
void zg_stats_note_unguarded_child(void);
void zg_stats_degrade(enum zg_degradation degradation);
// Notes as degradations what the system refused meanwhile. Slow path.
void zg_stats_note_refusals(void);

// Publishes the page as a memfd. In the child of a fork: gives the child a page of its own. Cold.
void zg_stats_publish(void);
void zg_stats_after_fork_in_child(void);
// Makes the user the owner of the page, by whom a process with the rights of root is about to go on: zguard takes no page that belongs to
// somebody else than its process. Cold.
void zg_stats_give_to(uint32_t user);

#endif
