// The latest retains and releases of each Swift object (history_per_object, trace_class).
// Readers in other processes rely on these layouts through struct zg_layout (zg_stats_page.h).

#ifndef ZG_COUNT_HISTORY_H
#define ZG_COUNT_HISTORY_H

#include <stdint.h>

// Reference count events, and their names in reports. try_retain is a load of a weak reference. The events with _n
// change the count by any number.
#define ZG_COUNT_EVENTS(X)                                                                                             \
    X(none, "")                                                                                                        \
    X(retain, "retain")                                                                                                \
    X(release, "release")                                                                                              \
    X(retain_n, "retain_n")                                                                                            \
    X(release_n, "release_n")                                                                                          \
    X(try_retain, "try_retain")                                                                                        \
    X(unowned_retain_strong, "unowned_retain_strong")                                                                  \
    X(dealloc, "dealloc")

enum zg_count_event {
#define ZG_X(name, text) zg_count_event_##name,
    ZG_COUNT_EVENTS(ZG_X)
#undef ZG_X
        zg_count_event_count
};

struct zg_count_change {
    uint32_t stack;  // the caller's stack trace, in the stack depot
    uint16_t thread; // dense thread number; 65535: this number or a higher one
    // Bits 0-3: enum zg_count_event. Bits 4-15: number of strong references before the change, at most ZG_COUNT_MOST; 0
    // if unknown.
    uint16_t what;
};
#define ZG_COUNT_MOST 0xfffu

// The history of one object. An array of struct zg_count_change follows, with zg_layout_counts.changes elements; the
// newest change is element (count - 1) % changes.
struct zg_count_entry {
    uint64_t object; // address; 0: the entry is free
    // First word of the object. A different word means that another object is at the address now.
    uint64_t class;
    uint32_t count;  // changes so far
    uint16_t thread; // thread that made the last change
    // The object was deallocated: a new object at this address starts a new history.
    uint8_t is_over;
    uint8_t is_shared; // several threads have changed the count
};

// Set-associative hash table: sets of ZG_COUNT_WAYS entries. Each struct zg_count_entry is followed by an array of
// `changes` elements of struct zg_count_change. An object is in set (address * ZG_COUNT_FACTOR) >> set_shift.
#define ZG_COUNT_WAYS 8
#define ZG_COUNT_FACTOR UINT64_C(0x9e3779b97f4a7c15)
struct zg_layout_counts {
    uint64_t base; // 0: no table
    uint32_t set_shift;
    uint32_t changes;
    uint32_t entry_bytes; // size of an entry with its changes
    uint32_t reserved;
};

// Returns the name of the event, such as "retain"; NULL for an unknown number.
const char *zg_count_event_text(uint32_t event);

#endif
