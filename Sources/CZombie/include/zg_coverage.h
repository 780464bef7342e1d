// Coverage: which pairs of allocation stack and free stack were watched, how soon freed blocks were guarded, and why
// not more was watched. Readers outside use these layouts.

#ifndef ZG_COVERAGE_H
#define ZG_COVERAGE_H

#include <stddef.h>
#include <stdint.h>

#include "zg_collector.h"
#include "zg_handled.h"
#include "zg_stalls.h"

// Reasons why blocks were not isolated. Columns: name, kind, text in the report of a run. The rows have the order of
// the arrays on the pages. If there are several reasons, only one is reported: a cause if there is one, else the
// earliest event, else a design.
#define ZG_COVERAGE_REASONS(X)                                                                                         \
    X(off, cause, "isolated_per_context is 0")                                                                         \
    X(sample_rate, cause, "only the blocks that sample_rate chose")                                                    \
    X(no_faults, cause, "faults cannot be diagnosed here, so no page is protected")                                    \
    X(fence_bytes, event, "isolated_bytes was used up")                                                                \
    X(fence_overhead, event, "isolated_overhead was used up")                                                          \
    X(overhead, event, "overhead was used up")                                                                         \
    X(mappings, event, "the mappings for protected pages were used up")                                                \
    X(memory, event, "isolated blocks used half of the machine's memory")                                              \
    X(pressure, event, "memory ran short")                                                                             \
    X(address_space, event, "address space was used up")                                                               \
    X(refused, event, "the kernel refused pages")                                                                      \
    X(heap, event, "the guarded heap could not serve a block")                                                         \
    X(other_allocator, design, "another allocator serves the program")                                                 \
    X(fence_per_context, design, "isolated_per_context: only the first blocks of each stack")                          \
    X(block_size, design, "blocks of more than 64 MiB are left out")

enum zg_coverage_reason {
#define ZG_X(name, kind, text) zg_coverage_reason_##name,
    ZG_COVERAGE_REASONS(ZG_X)
#undef ZG_X
        zg_coverage_reason_count
};

enum zg_coverage_reason_kind {
    zg_coverage_reason_cause,  // holds from the start, for most blocks
    zg_coverage_reason_event,  // something ran out; the time of that event is reported
    zg_coverage_reason_design, // excluded by the options or by design
};

// Contains no pointers, because the loader would have to relocate each one at every start.
struct zg_coverage_reason_info {
    char name[24], text[72];
    uint32_t kind; // enum zg_coverage_reason_kind
};
extern const struct zg_coverage_reason_info zg_coverage_reason_table[zg_coverage_reason_count];

// Record of one reason, in the statistics page of a process. Some causes are noted only once, at the start.
struct zg_coverage_reason_note {
    uint64_t blocks;   // blocks not isolated for this reason
    uint64_t first_ns; // CLOCK_REALTIME of the first such block; 0: none
};

// Counters that a run adds up over all its processes, by their names in the statistics page.
#define ZG_COVERAGE_SUMS(X)                                                                                            \
    X(allocations)                                                                                                     \
    X(unguarded_allocations)                                                                                           \
    X(passed_blocks)                                                                                                   \
    X(fenced_blocks)                                                                                                   \
    X(contexts)                                                                                                        \
    X(contexts_fenced)                                                                                                 \
    X(tagged_blocks)                                                                                                   \
    X(frees) X(pairs) X(pairs_watched) X(guarded_at_once) X(guarded_later) X(focused_blocks) X(focused_isolated)

enum zg_coverage_sum {
#define ZG_X(name) zg_coverage_sum_##name,
    ZG_COVERAGE_SUMS(ZG_X)
#undef ZG_X
        zg_coverage_sum_count
};
extern const char zg_coverage_sum_names[zg_coverage_sum_count][24];

// The page of a run: a sealed memfd made by zguard, found in the run's directory (zg_run_directory.h), and shared by
// all processes that `zguard run` started directly or indirectly. Each process regularly adds what it has counted since
// its last addition, so the sums include killed processes. Every process of the run can write to the whole page, so
// readers use it only for counts.
#define ZG_COVERAGE_MAGIC UINT64_C(0x314e55524755475a) // "ZGUGRUN1" in memory order
// Size of the struct below and of the handler records behind it (zg_handled.h).
#define ZG_COVERAGE_BYTES 151552u

struct zg_coverage_page {
    uint64_t magic; // written by zguard, which zeroes the rest
    // ZG_STATS_VERSION of the zguard that made the page. A runtime of another version does not use it.
    uint32_t version;
    uint32_t programs; // executed programs that found the page and are guarded
    // Executed programs that cannot find the page: they run without the library, or are statically linked.
    uint64_t unwatched_programs;
    uint64_t sums[zg_coverage_sum_count];
    uint64_t first_ns[zg_coverage_reason_count];
    // Raw findings written by processes, and how many of them zguard has reported.
    uint64_t written, shown;
    struct zg_collector collector;
    // Programs executed under seccomp filters without a description of these filters (zg_filtered.h).
    uint64_t filtered_programs;
    // Largest counter waiting_bytes_peak (zg_stats_page.h) of any process.
    uint64_t waiting_bytes_peak;
    // Programs that were left unguarded on purpose (settings/exemption.h).
    uint64_t exempt_programs;
    uint64_t spare[2];
    struct zg_heartbeats heartbeats; // each in a cache line of its own
};

_Static_assert(ZG_COVERAGE_BYTES == ZG_HANDLED_PLACE + ZG_HANDLED_BYTES, "a sum");
_Static_assert(sizeof(struct zg_coverage_page) <= ZG_HANDLED_PLACE, "the page of a run reaches");
_Static_assert(offsetof(struct zg_coverage_page, heartbeats) % ZG_HEARTBEAT_BYTES == 0,
               "heartbeats share no lines of the cache");

#endif
