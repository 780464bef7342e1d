// The newest retains and releases of Swift objects, with their stacks: kept by address, in a table of fixed size, in which an object that
// is new takes the place of the one that has been there longest.
// Recording: a lock for each set, which nobody waits for. Reading: any context, no lock.

#ifndef ZG_COUNT_HISTORY_KEEPING_H
#define ZG_COUNT_HISTORY_KEEPING_H

#include "include/zg_count_history.h"
#include "platform/base.h"

// Room for `changes` of each object. False where there is no memory.
bool zg_count_history_init(uint32_t changes);
// There can be none, though it was asked for: the statistics say so where a Swift object is seen, or at once.
void zg_count_history_miss(bool at_once);
void zg_count_history_swift_is_seen(void);
// `begins_anew`: if the object was deallocated, it is another one now. `maker`: the number of the thread that made it. `class`: its first word. Lost where
// another thread is just in the set. True: two threads or more use the object, its maker among them.
bool zg_count_history_add(uint64_t object, uint64_t class, struct zg_count_change change, bool begins_anew,
                          uint16_t maker);
void zg_count_history_after_fork_in_child(void);
// The entry of the object of this class, NULL where there is none, or it is another one's. It may change meanwhile.
const struct zg_count_entry *zg_count_history_find(uint64_t object, uint64_t class);
// Its `age`-th newest change, from 0. False where there are not as many.
bool zg_count_history_get(const struct zg_count_entry *entry, uint32_t age, struct zg_count_change *change);

#endif
