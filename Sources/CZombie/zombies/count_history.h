// Keeps the latest retains and releases of Swift objects, with their stacks.
// The table has a fixed size and is keyed by address. A new object takes a free entry, or evicts an older object from
// its set in round-robin order. Recording takes the lock of a set without waiting, except briefly for a deallocation.
// Reading: any context, no lock.

#ifndef ZG_COUNT_HISTORY_KEEPING_H
#define ZG_COUNT_HISTORY_KEEPING_H

#include "include/zg_count_history.h"
#include "platform/base.h"

// Allocates room for `changes` changes of each object. False if there is no memory.
bool zg_count_history_init(uint32_t changes);
// zg_count_history_miss notes that the history was requested but is impossible, and reports this as a degradation: at
// once, or when the first Swift object is seen. zg_count_history_swift_is_seen: call when the first Swift object is
// seen.
void zg_count_history_miss(bool at_once);
void zg_count_history_swift_is_seen(void);
// Records a change. `begins_anew`: if the object recorded at this address was deallocated, `object` is a new one.
// `maker`: number of the thread that allocated the object. `class`: the object's first word. The change is lost if
// another thread holds the set's lock. Returns true if several threads, including the maker, have used the object.
bool zg_count_history_add(uint64_t object, uint64_t class, struct zg_count_change change, bool begins_anew,
                          uint16_t maker);
void zg_count_history_after_fork_in_child(void);
// Returns the entry of the object at this address. NULL if there is no entry, or it is for an object of another class.
// Other threads may change the entry meanwhile.
const struct zg_count_entry *zg_count_history_find(uint64_t object, uint64_t class);
// Copies the `age`-th latest change, counted from 0. False if fewer changes are kept.
bool zg_count_history_get(const struct zg_count_entry *entry, uint32_t age, struct zg_count_change *change);

#endif
