// The table of options: the one place where an option is defined. Parser, help, documentation and tests come from it.
// A row: name, kind, default, least, largest value (numbers and byte counts), choices (enums, separated by '|'), text.

#ifndef ZG_OPTIONS_H
#define ZG_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

enum zg_option_kind { zg_option_bool, zg_option_number, zg_option_bytes, zg_option_choice, zg_option_path };

#define ZG_OPTIONS(X)                                                                                                  \
    X(profile, choice, 0, 0, 0, "guard", "named set of option values")                                                \
    X(quarantine_bytes, bytes, 1048576, 0, 1099511627776, "", "freed blocks are held until they amount to this much") \
    X(quarantine_per_context, number, 4, 0, 16, "",                                                                   \
      "newest freed blocks that each allocation context keeps, whatever the others free")                             \
    X(fence_per_context, number, 0, 0, 65535, "",                                                                     \
      "first blocks of each allocation context that get pages of their own, protected when they are freed")           \
    X(fence_blocks, number, 8192, 0, 16384, "", "blocks with pages of their own, at most")                            \
    X(fill_new, bool, 0, 0, 1, "", "fill new memory with 0xAA (calloc stays zero)")                                   \
    X(fill_freed_bytes, bytes, 1099511627776, 0, 1099511627776, "", "fill and verify at most this much of a freed block")    \
    X(stack_depth, number, 32, 0, 128, "", "frames kept of each allocation and free stack, 0 for none")               \
    X(on_finding, choice, 0, 0, 1, "abort|continue", "what happens after a finding is reported")                      \
    X(dealloc_mismatch, choice, 1, 0, 2, "off|certain|all",                                                           \
      "report new/free, new[]/delete and the like: only where no other explanation is possible, or always")           \
    X(verify_at_exit, bool, 1, 0, 1, "", "verify the quarantine when the program ends")                               \
    X(report_path, path, 0, 0, 0, "", "file for raw findings, %p is the process id; standard error as text where empty") \
    X(error_text, choice, 0, 0, 1, "full|headline",                                                                   \
      "what standard error gets of a finding after which the program goes on: all, or the first line")                  \
    X(stats, bool, 1, 0, 1, "", "publish statistics to zguard stats")                                                 \
    X(children, choice, 0, 0, 1, "follow|ignore", "whether programs started by the guarded one are guarded too")      \
    X(handle_signals, bool, 1, 0, 1, "", "diagnose faults (SIGSEGV, SIGBUS, and the aborts of the Swift runtime)")                                         \
    X(zombies, bool, 1, 0, 1, "", "recognise freed objects of Swift and C++ classes and report class and member")     \
    X(find_object, bool, 1, 0, 1, "", "use the C library's _dl_find_object where it exists")

enum zg_option {
#define ZG_X(name, kind, initial, least, most, choices, text) zg_option_name_##name,
    ZG_OPTIONS(ZG_X)
#undef ZG_X
        zg_option_count
};

struct zg_option_info {
    const char *name;
    enum zg_option_kind kind;
    int64_t initial, least, most;
    const char *choices; // "a|b|c", the value is the index
    const char *text;
};
extern const struct zg_option_info zg_option_table[zg_option_count];

#define ZG_OPTION_PATH_BYTES 512

struct zg_options {
    int64_t value[zg_option_count];
    char report_path[ZG_OPTION_PATH_BYTES];
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
