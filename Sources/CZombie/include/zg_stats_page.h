// The statistics page: memory that a guarded process publishes to readers in other processes.
// It is a memfd named "zguard-stats", mapped shared in the guarded process. Only the owner (and root) can read it,
// through /proc/PID/fd; it disappears with the process. Writers update counters by relaxed atomics; a reader copies the
// page.

#ifndef ZG_STATS_PAGE_H
#define ZG_STATS_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "zg_count_history.h"
#include "zg_coverage.h"
#include "zg_trap_place.h"

#define ZG_STATS_MAGIC UINT64_C(0x314452415547475a) // "ZGGUARD1" in memory order
#define ZG_STATS_VERSION 14u
#define ZG_STATS_NAME "zguard-stats" // memfd name: "/memfd:zguard-stats (deleted)" in /proc/PID/maps
#define ZG_STATS_BYTES 8192u

// Counters: name, Prometheus type, unit, description. The order is the order on the page.
#define ZG_COUNTERS(X)                                                                                                 \
    X(allocations, counter, "blocks", "blocks handed out since the start")                                             \
    X(frees, counter, "blocks", "blocks given back since the start")                                                   \
    X(live_blocks, gauge, "blocks", "blocks in use")                                                                   \
    X(live_bytes, gauge, "bytes", "bytes of blocks in use, as rounded up to their slots")                              \
    X(live_bytes_peak, gauge, "bytes", "largest value that live_bytes had")                                            \
    X(quarantined_blocks, gauge, "blocks", "freed blocks that are held and filled")                                    \
    X(quarantined_bytes, gauge, "bytes", "bytes of freed blocks that are held and filled")                             \
    X(quarantined_bytes_peak, gauge, "bytes", "largest value that quarantined_bytes had")                              \
    X(retired_blocks, gauge, "blocks", "freed blocks whose pages are protected")                                       \
    X(retired_bytes, gauge, "bytes", "address space held by retired blocks")                                           \
    X(evictions, counter, "blocks", "blocks that left the quarantine")                                                 \
    X(findings, counter, "findings", "findings reported")                                                              \
    X(findings_suppressed, counter, "findings", "findings equal to one reported before, counted but not repeated")     \
    X(threads, counter, "threads", "threads seen")                                                                     \
    X(stacks_captured, counter, "stacks", "stacks captured")                                                           \
    X(stack_nodes, gauge, "nodes", "nodes in the stack depot")                                                         \
    X(heap_committed_bytes, gauge, "bytes", "address space of the guarded heap that is backed or may be backed")       \
    X(metadata_bytes, gauge, "bytes", "address space of metadata that is backed or may be backed")                     \
    X(foreign_frees, counter, "blocks", "blocks of another allocator that passed through free")                        \
    X(unguarded_allocations, counter, "blocks",                                                                        \
      "allocations served by libc because the guarded heap could not serve them")                                      \
    X(deepbind_dropped, counter, "calls", "dlopen calls whose RTLD_DEEPBIND was dropped")                              \
    X(zombies, counter, "objects", "freed objects whose class was known")                                              \
    X(trims, counter, "trims", "times that memory was returned to the kernel on request or under pressure")            \
    X(fenced_blocks, counter, "blocks", "isolated blocks")                                                             \
    X(windowed_blocks, counter, "blocks",                                                                              \
      "isolated blocks in windows, which share physical pages with "                                                   \
      "other blocks")                                                                                                  \
    X(unaligned_accesses, counter, "instructions",                                                                     \
      "vector instructions that faulted on less aligned isolated blocks, and were continued")                          \
    X(fenced_live_bytes, gauge, "bytes", "memory of live isolated blocks")                                             \
    X(fence_declined, counter, "blocks", "blocks that were not isolated because a budget was used up")                 \
    X(contexts, gauge, "contexts", "allocation contexts seen")                                                         \
    X(contexts_fenced, counter, "contexts", "allocation contexts with at least one isolated block")                    \
    X(protected_mappings, gauge, "mappings", "upper bound of the mappings that protected pages use")                   \
    X(relieved_bytes, counter, "bytes", "memory given back on request or under pressure")                              \
    X(pressure_steps, counter, "steps", "steps taken because memory was short")                                        \
    X(pressure_level, gauge, "level", "0: enough memory, 1: memory is getting short, 2: memory is short")              \
    X(quarantine_cap, gauge, "bytes", "current size limit of the quarantine")                                          \
    X(overhead_permille, gauge, "per mille",                                                                           \
      "CPU time spent on guarding, as a share of the program's, measured recently")                                    \
    X(overhead_budget_permille, gauge, "per mille",                                                                    \
      "CPU time that guarding may cost, as a share of the program's; 0: no limit")                                     \
    X(overhead_spent_ns, counter, "nanoseconds", "measured CPU time of guarding; 0 without a limit")                   \
    X(processor_ns, counter, "nanoseconds", "CPU time of the process when the CPU time of guarding was measured")      \
    X(guarded_share_permille, gauge, "per mille",                                                                      \
      "share of blocks that are guarded if overhead limits their cost; the program's own allocator serves "            \
      "the others")                                                                                                    \
    X(findings_lost, counter, "findings",                                                                              \
      "findings that could be written neither to the report nor to standard error")                                    \
    X(children_unguarded, counter, "programs", "executed programs that cannot load the library, and ran without it")   \
    X(stack_bytes, gauge, "bytes", "memory of the stack depot")                                                        \
    X(stacks_shortened, counter, "stacks", "stacks of which only the innermost frames were recorded")                  \
    X(passed_blocks, counter, "blocks",                                                                                \
      "blocks that the program's own allocator served because of sample_rate or overhead")                             \
    X(tagged_blocks, counter, "blocks", "blocks with a memory tag, which each access must match (profile mte)")        \
    X(pairs, gauge, "pairs", "pairs of allocation stack and free stack seen")                                          \
    X(pairs_watched, counter, "pairs", "pairs of which a freed block was guarded before the program went on")          \
    X(guarded_at_once, counter, "blocks", "freed blocks that were guarded before the program went on")                 \
    X(guarded_later, counter, "blocks", "freed isolated blocks that were guarded after others had been freed, too")    \
    X(waiting_bytes_peak, gauge, "bytes", "largest amount of freed isolated blocks that were not guarded yet")         \
    X(watchpoints, counter, "blocks",                                                                                  \
      "freed blocks of rare pairs whose first words a hardware watchpoint watched for a while")                        \
    X(watchpoint_strays, counter, "accesses",                                                                          \
      "accesses at watchpoints that are no finding: vector loads beside the block, or unknown instructions")           \
    X(focused_blocks, counter, "blocks", "blocks of focused allocation stacks")                                        \
    X(focused_isolated, counter, "blocks", "isolated blocks of focused allocation stacks")

// Degradations: features that are missing in this process; the runtime continues without them. Each has one bit, in
// this order. Columns: name, text.
#define ZG_DEGRADATIONS(X)                                                                                             \
    X(small_address_space,                                                                                             \
      "the address space is limited: smaller regions were reserved, the heap may fall back to libc")                   \
    X(heap_exhausted, "the guarded heap could not serve an allocation: libc served it, unguarded")                     \
    X(no_find_object, "the C library lacks _dl_find_object: modules are found by the loader's list")                   \
    X(no_report, "the report could not be opened or written: findings went to standard error or were lost")            \
    X(depot_full, "the stack depot is full: newer stacks are recorded as unknown")                                     \
    X(no_safe_read, "process_vm_readv is refused: stacks stop at unknown memory")                                      \
    X(cxx_operators_replaced, "the program replaces operator new or delete: its C++ blocks are seen as "               \
                              "malloc blocks")                                                                         \
    X(other_allocator, "another allocator is loaded: pointers of unknown origin are passed to it")                     \
    X(allocator_in_front, "the program calls another allocator than the runtime's: its blocks are not guarded")        \
    X(no_alternate_stack, "a thread has no alternate signal stack: its stack overflow cannot be reported")             \
    X(no_trap_space, "the address space has no room for trap regions: freed objects are reported without "             \
                     "their class")                                                                                    \
    X(swift_layout, "this Swift runtime lays out objects in an unknown way: its classes are not reported")             \
    X(no_guard_pages,                                                                                                  \
      "the kernel lacks MADV_GUARD_INSTALL (or it is switched off): freed pages are protected by mprotect")            \
    X(mappings_spent,                                                                                                  \
      "the mappings for protected pages are used up or refused: further freed pages are not protected")                \
    X(fence_exhausted, "memory or address space was too small to isolate every block")                                 \
    X(not_passed_on, "the program's own allocator cannot be told from libc's: no block bypasses the runtime")          \
    X(no_pressure_thread, "the thread that watches for short memory could not be started")                             \
    X(deepbind_dropped, "RTLD_DEEPBIND was dropped from a dlopen call, so that its library is guarded too")            \
    X(no_statistics, "the statistics page could not be created: other processes cannot read this process's "           \
                     "counters")                                                                                       \
    X(no_fault_handler, "the handlers of SIGSEGV and SIGBUS could not be installed: faults are not diagnosed")         \
    X(no_table_memory,                                                                                                 \
      "memory for the runtime's own tables was refused: threads, stacks or freed blocks have no record")               \
    X(no_contents, "the contents of freed objects cannot be saved: the program may not continue after a finding")      \
    X(no_thread_ends, "the ends of threads are not noticed: their memory is not reused")                               \
    X(no_fork_handlers,                                                                                                \
      "forks are not noticed: a child of a process with several threads may wait for a lock forever")                  \
    X(no_status, "/proc/self/status or /proc/meminfo cannot be read: short memory is hardly noticed")                  \
    X(advice_refused, "the kernel refused madvise: memory was not given back, or core files may be large")             \
    X(blocks_not_locked,                                                                                               \
      "mlockall within RLIMIT_MEMLOCK: the program's mappings are locked, the memory of guarded blocks is not")        \
    X(children_unguarded,                                                                                              \
      "a program that cannot take the library (musl, a sanitizer, qemu's user mode, another processor) runs "          \
      "without it")                                                                                                    \
    X(filtered,                                                                                                        \
      "a seccomp filter forbids some system calls of the runtime: it does without them, and finds fewer bugs")         \
    X(filtered_at_start,                                                                                               \
      "a seccomp filter was installed before the start: only system calls of every start are made, and "               \
      "fewer bugs are found")                                                                                          \
    X(windows_shared,                                                                                                  \
      "a seccomp filter forbids copying blocks in windows: forked children share them with their parent")              \
    X(pairs_full,                                                                                                      \
      "too many pairs of allocation stack and free stack for their table: later ones count as not watched")            \
    X(stacks_shortened,                                                                                                \
      "too many stacks were new, or their memory is used up: only the innermost frames of new ones are recorded")      \
    X(no_count_history,                                                                                                \
      "retains and releases cannot be observed in this Swift runtime: findings do not show them, nothing is "          \
      "delayed")                                                                                                       \
    X(no_memory_tags, "no memory tagging on this processor or kernel: profile mte works as profile guard")             \
    X(tags_lost,                                                                                                       \
      "the program uses pointers without their memory tags: from then on the accesses of such threads are not "        \
      "checked")                                                                                                       \
    X(no_focus, "the file of focused stacks cannot be read: no stack is watched in full")                              \
    X(no_watchpoints, "the kernel refused hardware watchpoints: rare frees that are not isolated are not watched")

enum zg_counter {
#define ZG_X(name, type, unit, text) zg_counter_##name,
    ZG_COUNTERS(ZG_X)
#undef ZG_X
        zg_counter_count
};

enum zg_degradation {
#define ZG_X(name, text) zg_degradation_##name,
    ZG_DEGRADATIONS(ZG_X)
#undef ZG_X
        zg_degradation_count
};

struct zg_counter_info {
    const char *name, *type, *unit, *text;
};
struct zg_degradation_info {
    const char *name, *text;
};
extern const struct zg_counter_info zg_counter_table[zg_counter_count];
extern const struct zg_degradation_info zg_degradation_table[zg_degradation_count];

// Requests from outside (zguard trim). The requester writes `request_kind`, then increments `request` and wakes it as a
// futex. The process writes `answer_value`, then sets `answer` to `request`.
enum zg_request_kind { zg_request_none, zg_request_trim };

// Where the heap's metadata is, for readers of other processes and of core files (zguard check, zguard history).
// Addresses are those of the guarded process.
#define ZG_LAYOUT_MAX_CLASSES 64
struct zg_layout_class {
    uint64_t slots_base;  // address of slot 0
    uint64_t blocks_base; // address of the struct zg_block of slot 0
    uint64_t deaths_base; // address of the struct zg_death of slot 0
    // Slots handed out at least once. Higher slots have never held a block.
    uint64_t slots_used;
    uint32_t slot_bytes;
    uint32_t reserved;
    // Trap pointers of a zombie in slot 0 (trap.h): for word 0, for word 1, and for the words from 2 on. 0 if there are
    // none.
    uint64_t trap_isa, trap_side, trap_word;
};

// An area of address space with isolated or large blocks. `map` is an array of 32-bit words, one for each page: the
// number of the page's struct zg_span, or 0. The map may be shorter than the area: pages behind its end never held a
// block.
struct zg_layout_area {
    uint64_t base, bytes;
    uint64_t map;
    uint64_t page_bytes; // bytes of address space that one entry of `map` describes
};

// The address space of windows (pages/window.h). The record of page n is struct zg_alias number n. Unreadable records
// belong to pages that were never used.
struct zg_layout_windows {
    uint64_t base, bytes; // 0 bytes: there are no windows
    uint64_t records;
    // Trap pointers of a zombie in page 0. The zombie's other words have the fill.
    uint64_t trap_isa, trap_side;
    uint32_t record_bytes; // sizeof(struct zg_alias)
    uint32_t page_bytes;
};

// An address range of the runtime: heap, tables, alternate signal stacks. `end` 0 or 1: the element is unused.
struct zg_layout_range {
    uint64_t start, end;
};

// The processor's clock (zg_arch_ticks) and CLOCK_REALTIME, read together.
struct zg_layout_time {
    uint64_t ticks, ns; // ns: nanoseconds since 1970
};

// Reads both clocks.
struct zg_layout_time zg_layout_time_now(void);

// Addresses of the text that is stored for crash reports (zg_kept_text.h).
struct zg_layout_kept {
    // Address of the struct zg_kept_lines with the report's lines.
    uint64_t lines;
    // Address of the struct zg_kept_writes.
    uint64_t writes;
    // Address of an array of ZG_ANNOTATIONS struct zg_annotation.
    uint64_t annotations;
};

// Code with which zguard forks a process whose threads it has stopped (platform/arch_<cpu>_snapshot.c), and an array of
// ZG_SNAPSHOT_WORDS words. zguard writes to this array the registers of a thread, as PTRACE_GETREGSET returns them, and
// the thread's signal mask. 0: this processor has no such code.
enum { ZG_SNAPSHOT_MASK = 27, ZG_SNAPSHOT_BLOCKED = 28, ZG_SNAPSHOT_WORDS = 30 };
struct zg_layout_snapshot {
    uint64_t code, words;
};

struct zg_layout {
    uint32_t class_count;
    uint32_t block_bytes; // sizeof(struct zg_block)
    // Regions of the size classes, 2^slabs_shift bytes each.
    uint64_t slabs_base, slabs_bytes;
    uint32_t slabs_shift;
    uint32_t death_bytes; // sizeof(struct zg_death)
    uint64_t spans_base;  // address of the array of struct zg_span
    uint64_t spans_used;
    uint32_t span_bytes; // sizeof(struct zg_span)
    uint32_t node_bytes; // sizeof(struct zg_depot_node)
    // Nodes of the stack depot. A stack id is an index into this array; 0 is unknown.
    uint64_t nodes_base;
    uint64_t nodes_used;
    // Distances between the traps of adjacent slots (for the class pointer and the reference count) and of adjacent
    // words, as binary logarithms.
    uint32_t trap_isa_shift, trap_side_shift, trap_word_shift;
    // A trap depends only on the low trap_slots_shift bits of its slot's number, and on the low trap_words_shift bits
    // of its word's distance from slot 0.
    uint32_t trap_slots_shift, trap_words_shift;
    uint32_t class_table_count;
    // Array of words, each a class pointer with the language in its low bits; bit 2 is set if the class's library may
    // have been unloaded. Indexed by class_number - 1 of struct zg_death.
    uint64_t class_table;
    struct zg_layout_area large, isolated;
    struct zg_layout_windows windows;
    struct zg_layout_counts counts;
    struct zg_layout_kept kept;
    // Array of struct zg_layout_range: what the runtime has mapped. A search for references to blocks skips these
    // ranges.
    uint64_t own_ranges, own_range_count;
    struct zg_layout_snapshot snapshot;
    // Times at start-up, and at the last finding or memory pressure check (0: none).
    struct zg_layout_time first_time, last_time;
    struct zg_traps traps;
    // Trap pointers of a zombie in span 0. The other words of a large zombie have the fill.
    uint64_t span_trap_isa, span_trap_side;
    struct zg_layout_class classes[ZG_LAYOUT_MAX_CLASSES];
};

struct zg_stats_page {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes; // size of this structure
    uint32_t pid;
    // If 0, requests are answered at the next slow allocation or free.
    uint32_t has_maintenance_thread;
    uint64_t started_ns; // CLOCK_REALTIME
    char program[256];   // path of the executable, truncated
    char runtime_version[32];
    char options[512];     // ZGUARD_OPTIONS as given, truncated
    uint64_t degradations; // bit mask of enum zg_degradation
    uint64_t counters[zg_counter_count];
    uint32_t request;
    uint32_t request_kind;
    uint32_t answer;
    uint32_t reserved;
    uint64_t answer_value; // trim: bytes returned to the kernel
    struct zg_layout layout;
    // Path of an image that defines a malloc and is neither the runtime nor libc, truncated; empty if there is none.
    char allocator[256];
    // Why blocks were not isolated.
    struct zg_coverage_reason_note coverage_reasons[zg_coverage_reason_count];
    // Values that the summed counters had when they were last added to the run's page.
    uint64_t told[zg_coverage_sum_count];
};

_Static_assert(sizeof(struct zg_stats_page) <= ZG_STATS_BYTES, "the statistics page has two memory pages");

#endif
