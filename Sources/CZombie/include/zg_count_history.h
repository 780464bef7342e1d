// Retains and releases of Swift objects, the newest of each (history_per_object, trace_class). Readers in other processes rely on these
// layouts through struct zg_layout (zg_stats_page.h).

#ifndef ZG_COUNT_HISTORY_H
#define ZG_COUNT_HISTORY_H

#include <stdint.h>

// What was asked of an object, and what readers call it. A try is what becomes of a weak reference that is read; the forms with _n
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
    uint32_t stack;  // of the caller, in the depot
    uint16_t thread; // its dense number; 65535 stands for every later one
    uint16_t
        what; // bits 0-3 enum zg_count_event, 4-15 strong references before it, at most ZG_COUNT_MOST; 0: not known
};
#define ZG_COUNT_MOST 0xfffu

// One object's. The newest change is number (count - 1) % changes of the array that follows.
struct zg_count_entry {
    uint64_t object;   // its address; 0: the entry is free
    uint64_t class;    // its first word, which leads to the metadata: another object has another, as far as is known
    uint32_t count;    // of its changes so far
    uint16_t thread;   // that made the last one
    uint8_t is_over;   // it was deallocated: what comes with another life begins anew
    uint8_t is_shared; // two threads have changed its count
};

// The entries, in sets of ZG_COUNT_WAYS; each is followed by `changes` of struct zg_count_change. The object's set is its address,
// multiplied by ZG_COUNT_FACTOR, `set_shift` to the right.
#define ZG_COUNT_WAYS 8
#define ZG_COUNT_FACTOR UINT64_C(0x9e3779b97f4a7c15)
struct zg_layout_counts {
    uint64_t base; // 0: there are none
    uint32_t set_shift;
    uint32_t changes;
    uint32_t entry_bytes; // with its changes
    uint32_t reserved;
};

// "retain"; NULL for a number that is none.
const char *zg_count_event_text(uint32_t event);

#endif
