// A finding: one bug, as a record; and the functions that make them, one for each kind of event.
// Reporting allocates nothing and uses plain system calls, so it also runs in signal handlers. Rank of the report lock:
// the last; nothing is taken under it.

#ifndef ZG_FINDING_H
#define ZG_FINDING_H

#include "heap/lookup.h"
#include "include/zg_finding_kinds.h"
#include "platform/base.h"
#include "stacks/unwind.h"

enum { ZG_FINDING_DETAILS = 6 };

struct zg_finding {
    enum zg_finding_kind kind;
    const char *access;     // the name of one of ZG_ACCESSES
    const char *confidence; // and of ZG_CONFIDENCES
    bool fatal;             // on_finding=abort ends the program; as the kind has it, unless it is said otherwise
    uint64_t address;
    bool has_block;
    struct zg_block_view block;
    uint64_t member_code; // address of the method that was called, or of its record where it is async; 0: not known
    int64_t member_byte;  // byte of the object whose property is meant; negative: none
    uint32_t member_field; // number of the property in the class `member_class`, where that is not 0
    uint64_t member_class;
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

// An empty finding; `view` may be NULL.
void zg_finding_init(struct zg_finding *finding, enum zg_finding_kind kind, const char *access, uint64_t address,
                     const struct zg_block_view *view);
// The access's stack is that of whoever called the published function that this thread is in.
void zg_finding_capture_access(struct zg_finding *finding);
const char *zg_finding_kind_name(enum zg_finding_kind kind);
void zg_finding_detail_text(struct zg_finding *finding, const char *name, const char *text);
void zg_finding_detail_number(struct zg_finding *finding, const char *name, uint64_t number, bool hex);

// Writes the finding out, unless an equal one was. The program's end, where the options ask for it, is wanted through
// zg_thread.errands and comes when the runtime is left.
void zg_finding_report(struct zg_finding *finding);
// Findings after this do not end the program (it is ending, or somebody asked from outside).
void zg_finding_never_abort(bool never);

// -- findings of the heap; the calling thread is entered --
void zg_found_double_free(const struct zg_block_view *view, uint64_t address, const char *freed_with);
void zg_found_invalid_free(uint64_t address, const char *what, const char *freed_with);
void zg_found_dealloc_mismatch(const struct zg_block_view *view, uint64_t address, const char *freed_with,
                               uint64_t freed_size);
// Bytes of a dead block that changed: from `offset` on, the first one from `old` to `now`.
struct zg_change {
    uint64_t offset, length;
    uint8_t old, now;
};
// Bytes around a block with pages of its own changed; `offset` is from the block's start, negative as a signed number where
// they lie in front of it.
void zg_found_overrun(uint64_t start, const struct zg_change *change);
void zg_found_write_after_free(uint64_t start, const struct zg_change *change, const char *found_by);

#endif
