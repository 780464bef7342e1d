// The table of options, the only place where an option is defined.
// Parser, help, documentation, tests, and the fields of struct zg_config are made from it. Columns: name, kind,
// default, smallest and largest value, names, text. The names are those of a choice (its values are their numbers, from
// 0) or of words (one bit each, the first is bit 0). A choice also makes an enum: (abort, continue) of on_finding
// becomes enum zg_on_finding { zg_on_finding_abort, zg_on_finding_continue }.

#ifndef ZG_OPTIONS_H
#define ZG_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

// Percentages are in tenths of a percent: "2.5%" is 25.
#define ZG_OPTION_KINDS(X) X(bool) X(number) X(bytes) X(percent) X(choice) X(path) X(names) X(words)

enum zg_option_kind {
#define ZG_X(name) zg_option_##name,
    ZG_OPTION_KINDS(ZG_X)
#undef ZG_X
};

#define ZG_X(name) +1
enum { zg_option_kind_count = ZG_OPTION_KINDS(ZG_X) };
#undef ZG_X

#define ZG_OPTIONS(X)                                                                                                                              \
    X(profile, choice, 0, 0, 3, (guard, fence, sample, mte),                                                                                       \
      "preset of option values; options given explicitly override it")                                                                             \
    X(quarantine_bytes, bytes, 1048576, 0, 1099511627776, (),                                                                                      \
      "maximum total size of the freed blocks held in quarantine")                                                                                 \
    X(quarantine_per_context, number, 4, 0, 16, (),                                                                                                \
      "newest freed blocks of each allocation stack, kept in quarantine however much other code frees")                                            \
    X(fence_per_context, number, 8, 0, 65535, (),                                                                                                  \
      "first blocks of each allocation stack that get their own pages, protected on free; 65535: all blocks")                                      \
    X(fence_bytes, bytes, 16777216, 0, 1099511627776, (),                                                                                          \
      "memory for live blocks with their own pages; the default is also capped at 8 MiB or, if more, a quarter of live memory")                    \
    X(fence_overhead, percent, 30, 0, 1000, (),                                                                                                    \
      "CPU time for protected pages, as a share of the program's; first blocks of stacks up to three times of it; 100%: no limit")                 \
    X(fence_windows, choice, 0, 0, 2, (auto, off, all),                                                                                            \
      "small blocks with pages of their own share memory by windows (Linux 6.15): where that is cheaper, never, or all that can")                  \
    X(overread_ms, number, 20, 0, 1000000, (),                                                                                                     \
      "CPU time after which reads past the end of a live block with its own pages are allowed, where masked loads are slow; 0: never")             \
    X(fence_align, choice, 0, 0, 2, (16, 8, 1),                                                                                                    \
      "what the end of a block with its own pages is rounded to; 8 and 1 find more, and break programs that need malloc's alignment")              \
    X(sample_rate, number, 0, 0, 1000000000, (),                                                                                                   \
      "one block in this many, on average, gets its own pages and the program's own allocator serves the rest; 0: off")                            \
    X(sample_seed, number, 0, 0, 4294967295, (),                                                                                                   \
      "seed for the random choice of blocks, for repeatable runs; 0: random")                                                                      \
    X(overhead, percent, 0, 0, 1000, (),                                                                                                           \
      "CPU time that guarding may cost, as a share of the program's; decides how much is watched; 0: no limit")                                    \
    X(retired_bytes, bytes, 4294967296, 0, 1099511627776, (),                                                                                      \
      "address space that freed, protected pages hold before the oldest are reused; by default records, too, keep to an eighth of live memory")    \
    X(protect, choice, 0, 0, 2, (auto, guard, mprotect),                                                                                           \
      "how freed pages are protected: MADV_GUARD_INSTALL (Linux 6.13), or mprotect, which uses up mappings")                                       \
    X(mappings, number, 16000, 64, 1000000000, (),                                                                                                 \
      "how many of the mappings that the kernel allows a process may be used for protected pages")                                                 \
    X(pressure, bool, 1, 0, 1, (), "return memory to the kernel when the system or the process runs short of it")                                  \
    X(pressure_thread, bool, 1, 0, 1, (),                                                                                                          \
      "watch for memory pressure in a thread of the runtime; otherwise only on slow allocations and frees")                                        \
    X(pressure_thread_bytes, bytes, 67108864, 0, 1099511627776, (),                                                                                \
      "how much freed memory must be held before that thread is started")                                                                          \
    X(fill_new, bool, 0, 0, 1, (), "fill new memory with 0xAA (calloc still returns zeros)")                                                       \
    X(fill_freed_bytes, bytes, 1099511627776, 0, 1099511627776, (),                                                                                \
      "how many bytes of a freed block are filled and later verified, at most")                                                                    \
    X(stack_depth, number, 32, 0, 128, (), "frames kept of each allocation and free stack; 0: none")                                               \
    X(stack_bytes, bytes, 67108864, 1048576, 1099511627776, (),                                                                                    \
      "memory for stacks, or a tenth of live memory if more; fewer frames are kept as it fills, or where stacks do not repeat")                    \
    X(stack_overhead, percent, 30, 0, 1000, (),                                                                                                    \
      "CPU time for recording new stacks, as a share of the program's; where they take more, fewer frames are kept; 100%: no limit")               \
    X(on_finding, choice, 0, 0, 1, (abort, continue), "what the program does after a finding: end, or go on")                                      \
    X(dealloc_mismatch, choice, 1, 0, 2, (off, certain, all),                                                                                      \
      "report mismatches such as new/free and new[]/delete: never, only when certain, or all")                                                     \
    X(verify_at_exit, bool, 1, 0, 1, (),                                                                                                           \
      "verify freed blocks, and what is around live ones with their own pages, when the program exits")                                            \
    X(report_path, path, 0, 0, 0, (),                                                                                                              \
      "file for raw findings (%p: process id); if empty, findings go to standard error as text")                                                   \
    X(error_text, choice, 0, 0, 1, (full, headline),                                                                                               \
      "what is printed to standard error for a finding that does not end the program: everything, or the first line")                              \
    X(stats, bool, 1, 0, 1, (), "publish statistics for 'zguard stats'")                                                                           \
    X(children, choice, 0, 0, 1, (follow, ignore), "whether programs that the guarded program starts are guarded too")                             \
    X(handle_signals, bool, 1, 0, 1, (), "diagnose faults (SIGSEGV, SIGBUS, and aborts of the Swift runtime)")                                     \
    X(swift_backtrace, choice, 0, 0, 2, (auto, keep, skip),                                                                                        \
      "the Swift runtime's crash report after a finding: not where a test bundle said it all; SWIFT_BACKTRACE keeps it, 'zguard run' skips it")    \
    X(collect, words, 0, 0, 3, (crashes, stalls),                                                                                                  \
      "what is reported besides misused memory, separated by commas: crashes (signals that end the program, with all its "                         \
      "threads), stalls (threads that should wait for events and do not)")                                                                         \
    X(stall_ms, number, 250, 10, 3600000, (),                                                                                                      \
      "milliseconds that a thread may be busy between two waits for events (collect=stalls)")                                                      \
    X(stall_times, number, 3, 1, 1000, (),                                                                                                         \
      "how often within ten seconds that has to happen to be reported; once is enough where it takes twice as long")                               \
    X(stall_threads, names, 0, 0, 0, (),                                                                                                           \
      "threads that are looked at, separated by commas: main, all, names, or pool (calls that block threads of Swift's tasks); main unless given") \
    X(zombies, bool, 1, 0, 1, (), "recognise freed Swift and C++ objects, and report class and member")                                            \
    X(history_per_object, number, 0, 0, 64, (),                                                                                                    \
      "newest retains and releases of each Swift object that are kept with their stacks, for findings about it; 0: none")                          \
    X(trace_class, names, 0, 0, 0, (),                                                                                                             \
      "Swift classes, separated by commas, whose objects' retains and releases are kept (32 of each, unless history_per_object is given)")         \
    X(race_delay, number, 0, 0, 100000, (),                                                                                                        \
      "microseconds that retains and releases of Swift objects in use by two threads wait now and then, which makes races likelier; 0: none")      \
    X(find_object, bool, 1, 0, 1, (), "use the C library's _dl_find_object where it exists")

enum zg_option {
#define ZG_X(name, kind, initial, least, most, choices, text) zg_option_name_##name,
    ZG_OPTIONS(ZG_X)
#undef ZG_X
        zg_option_count
};

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
#define ZG_X(name, kind, initial, least, most, choices, text) ZG_ENUM_##kind(name, most, choices)
ZG_OPTIONS(ZG_X)
#undef ZG_X

#define ZG_FENCE_ALL 65535       // value of fence_per_context: every block
#define ZG_NO_LIMIT_PERCENT 1000 // value of fence_overhead and stack_overhead: no limit

struct zg_option_info {
    const char *name;
    enum zg_option_kind kind;
    int64_t initial, least, most;
    // "a, b, c". The value of a choice is the index; of words, the sum of 1 << index.
    const char *choices;
    const char *text;
    // Offset of the text in struct zg_options, for the kinds path and names.
    uint64_t path;
};
extern const struct zg_option_info zg_option_table[zg_option_count];
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
#define ZG_PATH_FIELD(name, kind, initial, least, most, choices, text) ZG_PATH_##kind(name)

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
