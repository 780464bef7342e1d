// A finding: one bug, as a record; the functions that make them, one for each kind of event; and the table of kinds.
// Reporting allocates nothing and uses plain system calls, so it also runs in signal handlers. Rank of the report lock:
// the last; nothing is taken under it.

#ifndef ZG_FINDING_H
#define ZG_FINDING_H

#include "base.h"
#include "lookup.h"
#include "unwind.h"

// Name in reports; whether on_finding=abort ends the program (faults end it by themselves, mismatches never do).
#define ZG_FINDING_KINDS(X)                                                                                            \
    X(use_after_free, "use-after-free", false)                                                                         \
    X(write_after_free, "write-after-free", true)                                                                      \
    X(double_free, "double-free", true)                                                                                \
    X(invalid_free, "invalid-free", true)                                                                              \
    X(dealloc_mismatch, "dealloc-mismatch", false)                                                                     \
    X(heap_overflow, "heap-overflow", true)                                                                            \
    X(wild_access, "wild-access", false)                                                                               \
    X(null_access, "null-access", false)                                                                               \
    X(stack_overflow, "stack-overflow", false)

enum zg_finding_kind {
#define ZG_X(name, text, fatal) zg_finding_##name,
    ZG_FINDING_KINDS(ZG_X)
#undef ZG_X
        zg_finding_kind_count
};

enum { ZG_FINDING_DETAILS = 5 };

struct zg_finding {
    enum zg_finding_kind kind;
    const char *access;     // read, write, call, retain, release, cast, free, unknown
    const char *confidence; // exact, inferred
    uint64_t address;
    bool has_block;
    struct zg_block_view block;
    int access_count;
    uint64_t access_stack[ZG_STACK_MAX_DEPTH];
    int detail_count;
    struct {
        const char *name;
        const char *text; // NULL: `number`
        uint64_t number;
        bool hex;
    } details[ZG_FINDING_DETAILS];
};

const char *zg_finding_kind_name(enum zg_finding_kind kind);
void zg_finding_detail_text(struct zg_finding *finding, const char *name, const char *text);
void zg_finding_detail_number(struct zg_finding *finding, const char *name, uint64_t number, bool hex);

// Writes the finding out, unless an equal one was. The program's end, where the options ask for it, is wanted through
// zg_thread.abort_wanted and comes when the runtime is left.
void zg_finding_report(struct zg_finding *finding);
// Findings after this do not end the program (it is ending, or somebody asked from outside).
void zg_finding_never_abort(bool never);

// -- findings of the heap; the calling thread is entered --
void zg_found_double_free(const struct zg_block_view *view, uint64_t address, const char *freed_with);
void zg_found_invalid_free(uint64_t address, const char *what, const char *freed_with);
void zg_found_dealloc_mismatch(const struct zg_block_view *view, uint64_t address, const char *freed_with,
                               uint64_t freed_size);
void zg_found_write_after_free(uint64_t start, uint64_t offset, uint64_t length, uint8_t value, const char *found_by);

#endif
