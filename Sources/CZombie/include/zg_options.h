// The table of options, the only place where an option is defined.
// Parser, help, documentation, tests, and the fields of struct zg_config are made from it. Columns: name, kind,
// default, smallest and largest value, names, group, visibility, text, details. The column `names` lists the values of
// a choice, numbered from 0, or the words that an option of kind words combines, one bit each from bit 0 on. A choice
// also makes an enum: (abort, continue) of on_finding becomes enum zg_on_finding { zg_on_finding_abort,
// zg_on_finding_continue }. The rows of a group follow each other. A hidden option is for tests and special machines;
// lists of options leave it out. The text is a clause of at most 70 characters, the details are whole sentences or
// empty.

#ifndef ZG_OPTIONS_H
#define ZG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Percentages are in tenths of a percent: "2.5%" is 25.
#define ZG_OPTION_KINDS(X) X(bool) X(number) X(bytes) X(percent) X(choice) X(path) X(names) X(words)

enum zg_option_kind {
#define ZG_X(name) zg_option_##name,
    ZG_OPTION_KINDS(ZG_X)
#undef ZG_X
};

// Groups of options, in the order of the lists of options. Columns: name, title.
#define ZG_OPTION_GROUPS(X)                                                                                            \
    X(budget, "Profiles and budget")                                                                                   \
    X(quarantine, "Quarantine")                                                                                        \
    X(isolated, "Isolated blocks")                                                                                     \
    X(stacks, "Stacks")                                                                                                \
    X(findings, "Findings and reports")                                                                                \
    X(collector, "Crashes and stalls")                                                                                 \
    X(objects, "Swift and C++ objects")                                                                                \
    X(processes, "Processes")                                                                                          \
    X(pressure, "Memory pressure")

enum zg_option_group {
#define ZG_X(name, title) zg_option_group_##name,
    ZG_OPTION_GROUPS(ZG_X)
#undef ZG_X
        zg_option_group_count
};

#define ZG_X(name) +1
enum { zg_option_kind_count = ZG_OPTION_KINDS(ZG_X) };
#undef ZG_X

#define ZG_OPTIONS(X)                                                                                                  \
    X(profile, choice, 0, 0, 3, (guard, fence, sample, mte), budget, shown,                                            \
      "preset of option values; options that are given override it",                                                   \
      "guard isolates some blocks of each allocation stack, within a budget. fence isolates every block. "             \
      "sample guards one block in 10,000 and reports crashes and stalls. mte uses memory tags (aarch64).")             \
    X(overhead, percent, 0, 0, 1000, (), budget, shown,                                                                \
      "CPU time for guarding, as a share of the program's; 0: no limit",                                               \
      "The limit is kept by guarding fewer blocks.")                                                                   \
    X(sample_rate, number, 0, 0, 1000000000, (), budget, shown,                                                        \
      "guard one block in this many, and isolate it; 0: guard every block",                                            \
      "The share is an average. The program's own allocator serves the other blocks.")                                 \
    X(sample_seed, number, 0, 0, 4294967295, (), budget, hidden,                                                       \
      "seed for the random choice of blocks, for repeatable runs; 0: random", "")                                      \
    X(quarantine_bytes, bytes, 1048576, 0, 1099511627776, (), quarantine, shown,                                       \
      "maximum total size of the freed blocks held in quarantine",                                                     \
      "The default is also capped at a 16th of the most live memory so far or, if more, 256 KiB.")                     \
    X(quarantine_per_context, number, 4, 0, 16, (), quarantine, shown,                                                 \
      "newest freed blocks of each allocation stack that stay in quarantine",                                          \
      "They stay however much other code frees.")                                                                      \
    X(fill_new, bool, 0, 0, 1, (), quarantine, shown, "fill new memory with 0xAA (calloc still returns zeros)", "")    \
    X(fill_freed_bytes, bytes, 1099511627776, 0, 1099511627776, (), quarantine, hidden,                                \
      "bytes of a freed block that are filled and later verified, at most", "")                                        \
    X(verify_at_exit, bool, 1, 0, 1, (), quarantine, shown, "verify freed blocks when the program exits",              \
      "The red zones of live isolated blocks are verified, too.")                                                      \
    X(isolated_per_context, number, 8, 0, 65535, (), isolated, shown,                                                  \
      "first blocks of each allocation stack that are isolated; 65535: all",                                           \
      "An isolated block has pages of its own, followed by a guard page. Its pages are protected when it "             \
      "is freed.")                                                                                                     \
    X(isolated_bytes, bytes, 16777216, 0, 1099511627776, (), isolated, shown, "memory for live isolated blocks",       \
      "The default is also capped at 8 MiB or, if more, a quarter of live memory.")                                    \
    X(isolated_overhead, percent, 30, 0, 1000, (), isolated, shown,                                                    \
      "CPU time for isolating blocks, as a share of the program's",                                                    \
      "The first block of each allocation stack may use up to three times that share. 100%: no limit.")                \
    X(isolated_align, choice, 0, 0, 3, (auto, 16, 8, 1), isolated, shown, "alignment of the end of an isolated block", \
      "auto: by its size, and exact for strings. 8 and 1 find more, and break programs that need malloc's "            \
      "alignment.")                                                                                                    \
    X(isolated_windows, choice, 0, 0, 2, (auto, off, all), isolated, hidden,                                           \
      "share physical pages between small isolated blocks (Linux 6.15)",                                               \
      "auto: if that is cheaper. off: never. all: whenever possible.")                                                 \
    X(overread_ms, number, 20, 0, 1000000, (), isolated, hidden,                                                       \
      "CPU time until reads behind a live isolated block are allowed",                                                 \
      "In milliseconds, on processors on which masked loads are slow. 0: never.")                                      \
    X(retired_bytes, bytes, 4294967296, 0, 1099511627776, (), isolated, shown,                                         \
      "address space of freed isolated blocks before the oldest is reused",                                            \
      "By default, the records of these blocks are also limited to an eighth of live memory.")                         \
    X(protect, choice, 0, 0, 2, (auto, guard, mprotect), isolated, hidden,                                             \
      "how freed pages are protected: MADV_GUARD_INSTALL or mprotect",                                                 \
      "MADV_GUARD_INSTALL needs Linux 6.13. mprotect uses up mappings.")                                               \
    X(watchpoints, bool, 1, 0, 1, (), isolated, hidden, "watch freed blocks of rare pairs by hardware watchpoints",    \
      "x86-64, Linux 5.18. A rare pair is a free stack that frees few blocks of a busy allocation stack.")             \
    X(focus, path, 0, 0, 0, (), isolated, hidden, "file of allocation stacks of which every block is isolated",        \
      "'zguard run --focus' writes it and sets this option.")                                                          \
    X(mappings, number, 16000, 64, 1000000000, (), isolated, hidden, "mappings that protected pages may use up",       \
      "The kernel limits the mappings of a process (vm.max_map_count).")                                               \
    X(stack_depth, number, 32, 0, 128, (), stacks, shown,                                                              \
      "frames recorded of each allocation and free stack; 0: none", "")                                                \
    X(stack_bytes, bytes, 67108864, 1048576, 1099511627776, (), stacks, shown,                                         \
      "memory for stacks, or a tenth of live memory if that is more",                                                  \
      "Fewer frames are recorded as it fills, or if stacks do not repeat.")                                            \
    X(stack_overhead, percent, 30, 0, 1000, (), stacks, hidden,                                                        \
      "CPU time for recording new stacks, as a share of the program's",                                                \
      "If they take more, fewer frames are recorded. 100%: no limit.")                                                 \
    X(find_object, bool, 1, 0, 1, (), stacks, hidden, "use the C library's _dl_find_object if it exists", "")          \
    X(on_finding, choice, 0, 0, 1, (abort, continue), findings, shown,                                                 \
      "what the program does after a finding: end or continue", "")                                                    \
    X(dealloc_mismatch, choice, 1, 0, 2, (off, certain, all), findings, shown,                                         \
      "mismatches such as new and free that are reported",                                                             \
      "off: none. certain: leaves out those that replaced operators or known libraries may cause. all: every one.")    \
    X(report_path, path, 0, 0, 0, (), findings, shown, "file for raw findings (%p: process id)",                       \
      "Without it, findings go to standard error as text.")                                                            \
    X(scan_ms, number, 2000, 0, 60000, (), findings, shown,                                                            \
      "milliseconds for finding who still points to a freed block; 0: off",                                            \
      "Of the first eight findings of a process under 'zguard run'. The process waits meanwhile.")                     \
    X(log_pairs, bool, 0, 0, 1, (), findings, hidden,                                                                  \
      "log the pairs of allocation and free stack in the run's directory", "'zguard run --coverage' sets it.")         \
    X(witnesses, bool, 1, 0, 1, (), findings, shown,                                                                   \
      "check blocks that are passed to libc's memory and string functions",                                            \
      "The first calls of each call site are checked, later ones within 1 % of the CPU time. Off in profile sample.")  \
    X(error_text, choice, 0, 0, 1, (full, headline), findings, shown,                                                  \
      "how much of a finding is printed to standard error",                                                            \
      "Applies to findings that do not end the program. headline: the first line only.")                               \
    X(collect, words, 0, 0, 3, (crashes, stalls), collector, shown,                                                    \
      "what is reported besides misused memory, separated by commas",                                                  \
      "crashes: signals that end the program, with the stacks of all its threads. stalls: threads that are "           \
      "busy instead of waiting for events.")                                                                           \
    X(handle_signals, bool, 1, 0, 1, (), collector, shown,                                                             \
      "diagnose faults (SIGSEGV, SIGBUS, and aborts of the Swift runtime)", "")                                        \
    X(swift_backtrace, choice, 0, 0, 2, (auto, keep, skip), collector, shown,                                          \
      "whether the Swift runtime prints its crash report after a finding",                                             \
      "auto: not if a test bundle has reported the finding completely. 'zguard run' sets skip, unless "                \
      "suppressions are given. The report is always printed if SWIFT_BACKTRACE is set.")                               \
    X(stall_ms, number, 250, 10, 3600000, (), collector, shown,                                                        \
      "milliseconds that a thread may be busy between two waits for events", "Applies with collect=stalls.")           \
    X(stall_times, number, 3, 1, 1000, (), collector, shown,                                                           \
      "stalls of one kind within ten seconds that are needed for a report",                                            \
      "A stall of twice stall_ms is reported at once.")                                                                \
    X(stall_threads, names, 0, 0, 0, (), collector, shown,                                                             \
      "threads that are watched for stalls: main, all, pool, or names",                                                \
      "Separated by commas. The default is main. pool: calls that block threads of Swift's tasks.")                    \
    X(zombies, bool, 1, 0, 1, (), objects, shown,                                                                      \
      "recognize freed Swift and C++ objects, and report class and member", "")                                        \
    X(history_per_object, number, 0, 0, 64, (), objects, shown,                                                        \
      "newest retains and releases recorded of each Swift object; 0: none",                                            \
      "They are recorded with their stacks, and shown by findings about the object.")                                  \
    X(trace_class, names, 0, 0, 0, (), objects, shown,                                                                 \
      "Swift classes whose objects' retains and releases are recorded",                                                \
      "Separated by commas. 32 are recorded of each object, unless history_per_object is given.")                      \
    X(race_delay, number, 0, 0, 100000, (), objects, shown,                                                            \
      "microseconds that some retains and releases wait; 0: none",                                                     \
      "Applies to Swift objects in use by two threads. The delay makes races likelier.")                               \
    X(children, choice, 0, 0, 1, (follow, ignore), processes, shown,                                                   \
      "whether programs that the guarded program starts are guarded, too", "")                                         \
    X(only, names, 0, 0, 0, (), processes, shown, "the only programs to guard, by name or path",                       \
      "Separated by commas; * stands for anything. Others run unguarded, and what they start is guarded if named.")    \
    X(stats, bool, 1, 0, 1, (), processes, shown, "publish statistics for 'zguard stats'", "")                         \
    X(pressure, bool, 1, 0, 1, (), pressure, shown,                                                                    \
      "return memory to the kernel when the system or process runs short", "")                                         \
    X(pressure_thread, bool, 1, 0, 1, (), pressure, hidden, "watch for memory pressure in a thread of the runtime",    \
      "Otherwise, slow allocations and frees watch for it.")                                                           \
    X(pressure_thread_bytes, bytes, 67108864, 0, 1099511627776, (), pressure, hidden,                                  \
      "freed memory at which the memory pressure thread is started", "")

// Former names of options. They are parsed, but lists of options leave them out. Columns: former name, name.
#define ZG_OPTION_ALIASES(X)                                                                                           \
    X(fence_per_context, isolated_per_context)                                                                         \
    X(fence_bytes, isolated_bytes)                                                                                     \
    X(fence_overhead, isolated_overhead)                                                                               \
    X(fence_windows, isolated_windows)                                                                                 \
    X(fence_align, isolated_align)

enum zg_option {
#define ZG_X(name, kind, initial, least, most, choices, group, visibility, text, details) zg_option_name_##name,
    ZG_OPTIONS(ZG_X)
#undef ZG_X
        zg_option_count
};

#define ZG_X(alias, name) +1
enum { zg_option_alias_count = ZG_OPTION_ALIASES(ZG_X) };
#undef ZG_X

// Makes the enum of each choice, which has two to four names.
#define ZG_CHOICE_2(name, a, b) zg_##name##_##a, zg_##name##_##b
#define ZG_CHOICE_3(name, a, ...) zg_##name##_##a, ZG_CHOICE_2(name, __VA_ARGS__)
#define ZG_CHOICE_4(name, a, ...) zg_##name##_##a, ZG_CHOICE_3(name, __VA_ARGS__)
#define ZG_FIFTH(a, b, c, d, fifth, ...) fifth
#define ZG_CHOICE_ENUM(name, most, ...)                                                                                \
    enum zg_##name{ZG_FIFTH(__VA_ARGS__, ZG_CHOICE_4, ZG_CHOICE_3, ZG_CHOICE_2, )(name, __VA_ARGS__)};                 \
    _Static_assert(ZG_FIFTH(__VA_ARGS__, 3, 2, 1, 0) == most, "the largest value of " #name " is its last name");
#define ZG_UNPACK(...) __VA_ARGS__
#define ZG_ENUM_bool(name, most, choices)
#define ZG_ENUM_number(name, most, choices)
#define ZG_ENUM_bytes(name, most, choices)
#define ZG_ENUM_percent(name, most, choices)
#define ZG_ENUM_path(name, most, choices)
#define ZG_ENUM_names(name, most, choices)
#define ZG_ENUM_words(name, most, choices) ZG_WORDS_ENUM_OF(name, most, ZG_UNPACK choices)
#define ZG_WORDS_ENUM_OF(name, most, ...) ZG_WORDS_ENUM(name, most, __VA_ARGS__)
#define ZG_WORDS_ENUM(name, most, a, b)                                                                                \
    enum zg_##name{zg_##name##_##a = 1, zg_##name##_##b = 2};                                                          \
    _Static_assert((zg_##name##_##a | zg_##name##_##b) == most,                                                        \
                   "the largest value of " #name " has the bits of all its words");
#define ZG_ENUM_choice(name, most, choices) ZG_CHOICE_ENUM_OF(name, most, ZG_UNPACK choices)
#define ZG_CHOICE_ENUM_OF(name, most, ...) ZG_CHOICE_ENUM(name, most, __VA_ARGS__)
#define ZG_X(name, kind, initial, least, most, choices, group, visibility, text, details)                              \
    ZG_ENUM_##kind(name, most, choices)
ZG_OPTIONS(ZG_X)
#undef ZG_X

#define ZG_FENCE_ALL 65535       // value of isolated_per_context: every block
#define ZG_NO_LIMIT_PERCENT 1000 // value of isolated_overhead and stack_overhead: no limit

struct zg_option_info {
    const char *name;
    enum zg_option_kind kind;
    int64_t initial, least, most;
    // "a, b, c". The value of a choice is the index of its name; the value of words is the sum of 1 << index.
    const char *choices;
    uint8_t name_bytes; // length of the name
    // Offset of the text in struct zg_options, for the kinds path and names.
    uint64_t path;
};
extern const struct zg_option_info zg_option_table[zg_option_count];

// The description of an option, for zguard. The descriptions are in a separate table, which the library does not
// contain: each pointer would cost every guarded process a relocation.
struct zg_option_description {
    enum zg_option_group group;
    bool is_shown; // false: hidden from lists of options
    const char *text;
    const char *details; // may be empty
};
extern const struct zg_option_description zg_option_descriptions[zg_option_count];
extern const char *const zg_option_group_titles[zg_option_group_count];

struct zg_option_alias {
    const char *name; // the former name
    enum zg_option option;
};
extern const struct zg_option_alias zg_option_aliases[zg_option_alias_count];
extern const char *const zg_option_kind_names[zg_option_kind_count];

#define ZG_OPTION_PATH_BYTES 512

// Fields for the options that are texts (kinds path and names).
#define ZG_PATH_bool(name)
#define ZG_PATH_number(name)
#define ZG_PATH_bytes(name)
#define ZG_PATH_percent(name)
#define ZG_PATH_choice(name)
#define ZG_PATH_path(name) char name[ZG_OPTION_PATH_BYTES];
#define ZG_PATH_words(name)
#define ZG_PATH_names(name) char name[ZG_OPTION_PATH_BYTES];
#define ZG_PATH_FIELD(name, kind, initial, least, most, choices, group, visibility, text, details) ZG_PATH_##kind(name)

struct zg_options {
    int64_t value[zg_option_count]; // 0 for the kinds path and names
    ZG_OPTIONS(ZG_PATH_FIELD)
};

struct zg_option_error {
    enum { zg_option_ok, zg_option_unknown, zg_option_bad_value } what;
    char name[64];      // as given, truncated
    char value[64];     // as given, truncated
    char expected[160]; // the valid range, or the nearest known name (may be empty)
};

// Sets every option to its default.
void zg_options_defaults(struct zg_options *options);

// Parses "key=value:key=value" into `options`. Calls `report` for each unknown key, which is skipped, and for the first
// bad value, which ends the parsing. Returns 0 after a bad value, else 1. Allocates nothing. Any thread.
int zg_options_parse(struct zg_options *options, const char *text,
                     void (*report)(const struct zg_option_error *error, void *context), void *context);

#endif
