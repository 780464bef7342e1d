// The process's own statistics page: raises counters and notes degradations.
// Until the page is published, or if that fails, the counters are in private memory.

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
// Returns live_bytes, but at least 0. The counter is negative for a while if a thread has flushed its frees of blocks
// whose allocations another thread has not flushed yet.
ZG_INLINE uint64_t zg_stats_live_bytes(void) {
    uint64_t bytes = zg_stats_get(zg_counter_live_bytes);
    return (int64_t)bytes < 0 ? 0 : bytes;
}
void zg_stats_raise_peak(enum zg_counter peak, uint64_t value);
// Counts a program that is executed without the library. In the child of a fork, also counts the program in the
// parent's page, because the child's page disappears at exec. Signal-safe.
void zg_stats_note_unguarded_child(void);
void zg_stats_degrade(enum zg_degradation degradation);
ZG_INLINE bool zg_stats_is_degraded(enum zg_degradation degradation) {
    return zg_load(&zg_stats->degradations) >> degradation & 1;
}
// Adds a degradation for each kind of system call that was refused so far. Slow path.
void zg_stats_note_refusals(void);

// zg_stats_publish publishes the page as a memfd; zg_stats_after_fork_in_child gives the child of a fork a page of its
// own. Cold.
void zg_stats_publish(void);
void zg_stats_after_fork_in_child(void);
// Makes `user` the owner of the page. Call before a root process changes to that user: zguard accepts a page only if it
// belongs to the same user as the process. Cold.
void zg_stats_change_owner(uint32_t user);

#endif
