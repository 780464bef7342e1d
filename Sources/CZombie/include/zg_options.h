// The table of options: the one place where an option is defined. Parser, help, documentation, tests and the fields of struct
// zg_config come from it. A row: name, kind, default, least and largest value, the names of a choice (its values are their
// numbers, from 0), text. A choice makes an enum, too: (abort, continue) of on_finding is enum zg_on_finding {
// zg_on_finding_abort, zg_on_finding_continue }.

#ifndef ZG_OPTIONS_H
#define ZG_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

// A percentage is kept in tenths of a percent: "2.5%" is 25.
#define ZG_OPTION_KINDS(X) X(bool) X(number) X(bytes) X(percent) X(choice) X(path)

enum zg_option_kind {
#define ZG_X(name) zg_option_##name,
    ZG_OPTION_KINDS(ZG_X)
#undef ZG_X
        zg_option_kind_count
};

#define ZG_OPTIONS(X)                                                                                                  \
    X(profile, choice, 0, 0, 2, (guard, fence, sample), "named set of option values, which the other options override") \
    X(quarantine_bytes, bytes, 1048576, 0, 1099511627776, (), "freed blocks are held until they amount to this much")  \
    X(quarantine_per_context, number, 4, 0, 16, (),                                                                    \
      "newest freed blocks that each allocation context keeps, whatever the others free")                              \
    X(fence_per_context, number, 8, 0, 65535, (),                                                                      \
      "first blocks of each allocation context that get pages of their own, protected when they are freed; 65535: all") \
    X(fence_bytes, bytes, 16777216, 0, 1099511627776, (),                                                              \
      "memory that blocks in use with pages of their own may take, at most 4 MiB or an eighth of all where not all have them") \
    X(fence_overhead, percent, 30, 0, 1000, (),                                                                        \
      "processor time for pages of their own, as a share of the program's, after the first 8 ms; 100%: no limit")      \
    X(overread_ms, number, 20, 0, 1000000, (),                                                                         \
      "processor time in use after which reads behind a block with pages of its own pass, where masked loads are slow; 0: never") \
    X(sample_rate, number, 0, 0, 1000000000, (),                                                                       \
      "one of so many blocks, on average, gets pages of its own; the program's own allocator serves all others; 0: off") \
    X(sample_seed, number, 0, 0, 4294967295, (), "seed of the random choice, for runs that are to be repeated; 0: random") \
    X(overhead, percent, 0, 0, 1000, (),                                                                               \
      "processor time that guarding may cost, as a share of the program's: what is watched follows from it; 0: no limit") \
    X(retired_bytes, bytes, 4294967296, 0, 1099511627776, (),                                                          \
      "address space that dead, protected pages may hold before the oldest addresses are used again")                  \
    X(protect, choice, 0, 0, 2, (auto, guard, mprotect),                                                               \
      "how dead pages are protected: MADV_GUARD_INSTALL (Linux 6.13), or mprotect, which costs mappings")              \
    X(mappings, number, 16000, 64, 1000000000, (),                                                                     \
      "mappings that protected pages may cost, of those that the kernel allows a process")                             \
    X(pressure, bool, 1, 0, 1, (), "give memory back when the system or the process's limits run short of it")         \
    X(pressure_thread, bool, 1, 0, 1, (),                                                                              \
      "watch for that from a thread, once the dead blocks are worth one; otherwise only at slow allocations and frees") \
    X(pressure_thread_bytes, bytes, 67108864, 0, 1099511627776, (), "memory of dead blocks that is worth a thread")    \
    X(fill_new, bool, 0, 0, 1, (), "fill new memory with 0xAA (calloc stays zero)")                                    \
    X(fill_freed_bytes, bytes, 1099511627776, 0, 1099511627776, (), "fill and verify at most this much of a freed block") \
    X(stack_depth, number, 32, 0, 128, (), "frames kept of each allocation and free stack, 0 for none")                \
    X(on_finding, choice, 0, 0, 1, (abort, continue), "what happens after a finding is reported")                      \
    X(dealloc_mismatch, choice, 1, 0, 2, (off, certain, all),                                                          \
      "report new/free, new[]/delete and the like: only where no other explanation is possible, or always")            \
    X(verify_at_exit, bool, 1, 0, 1, (), "verify the quarantine when the program ends")                                \
    X(report_path, path, 0, 0, 0, (), "file for raw findings, %p is the process id; standard error as text where empty") \
    X(error_text, choice, 0, 0, 1, (full, headline),                                                                   \
      "what standard error gets of a finding after which the program goes on: all, or the first line")                 \
    X(stats, bool, 1, 0, 1, (), "publish statistics to zguard stats")                                                  \
    X(children, choice, 0, 0, 1, (follow, ignore), "whether programs started by the guarded one are guarded too")      \
    X(handle_signals, bool, 1, 0, 1, (), "diagnose faults (SIGSEGV, SIGBUS, and the aborts of the Swift runtime)")     \
    X(zombies, bool, 1, 0, 1, (), "recognise freed objects of Swift and C++ classes and report class and member")      \
    X(find_object, bool, 1, 0, 1, (), "use the C library's _dl_find_object where it exists")

enum zg_option {
#define ZG_X(name, kind, initial, least, most, choices, text) zg_option_name_##name,
    ZG_OPTIONS(ZG_X)
#undef ZG_X
        zg_option_count
};

// The enum of each choice; two to four names.
#define ZG_CHOICE_2(name, a, b) zg_##name##_##a, zg_##name##_##b
#define ZG_CHOICE_3(name, a, ...) zg_##name##_##a, ZG_CHOICE_2(name, __VA_ARGS__)
#define ZG_CHOICE_4(name, a, ...) zg_##name##_##a, ZG_CHOICE_3(name, __VA_ARGS__)
#define ZG_CHOICE_OF(a, b, c, d, count, ...) ZG_CHOICE_##count
#define ZG_CHOICE_NAMES(name, ...) ZG_CHOICE_OF(__VA_ARGS__, 4, 3, 2, 1)(name, __VA_ARGS__)
#define ZG_UNPACK(...) __VA_ARGS__
#define ZG_ENUM_bool(name, most, choices)
#define ZG_ENUM_number(name, most, choices)
#define ZG_ENUM_bytes(name, most, choices)
#define ZG_ENUM_percent(name, most, choices)
#define ZG_ENUM_path(name, most, choices)
#define ZG_ENUM_choice(name, most, choices)                                                                            \
    enum zg_##name { ZG_CHOICE_ENUM(name, ZG_UNPACK choices) zg_##name##_count };                                      \
    _Static_assert(zg_##name##_count - 1 == most, "the largest value of " #name " is its last name");
#define ZG_CHOICE_ENUM(name, ...) ZG_CHOICE_NAMES(name, __VA_ARGS__),
#define ZG_X(name, kind, initial, least, most, choices, text) ZG_ENUM_##kind(name, most, choices)
ZG_OPTIONS(ZG_X)
#undef ZG_X

#define ZG_FENCE_ALL 65535       // of fence_per_context: every block
#define ZG_NO_LIMIT_PERCENT 1000 // of fence_overhead

struct zg_option_info {
    const char *name;
    enum zg_option_kind kind;
    int64_t initial, least, most;
    const char *choices; // "a, b, c", the value is the index
    const char *text;
    uint64_t path; // of a path: where it stands in struct zg_options
};
extern const struct zg_option_info zg_option_table[zg_option_count];
extern const char *const zg_option_kind_names[zg_option_kind_count];

#define ZG_OPTION_PATH_BYTES 512

// The fields of the options that are paths, in a struct.
#define ZG_PATH_bool(name)
#define ZG_PATH_number(name)
#define ZG_PATH_bytes(name)
#define ZG_PATH_percent(name)
#define ZG_PATH_choice(name)
#define ZG_PATH_path(name) char name[ZG_OPTION_PATH_BYTES];
#define ZG_PATH_FIELD(name, kind, initial, least, most, choices, text) ZG_PATH_##kind(name)

struct zg_options {
    int64_t value[zg_option_count]; // of a path: 0
    ZG_OPTIONS(ZG_PATH_FIELD)
};

struct zg_option_error {
    enum { zg_option_ok, zg_option_unknown, zg_option_bad_value } what;
    char name[64];     // as given, cut off where longer
    char value[64];    // as given, cut off where longer
    char expected[160]; // the range in words, or the nearest known name (may be empty)
};

// Sets every option to its default.
void zg_options_defaults(struct zg_options *options);

// Parses "key=value:key=value" into `options`. Calls `report` for each unknown key (which is skipped) and for the first
// bad value, where it stops and returns 0; returns 1 otherwise. Allocates nothing. Any thread.
int zg_options_parse(struct zg_options *options, const char *text,
                     void (*report)(const struct zg_option_error *error, void *context), void *context);

#endif
