// A finding: one bug, as a record. Any context; no state, nothing is allocated.

#ifndef ZG_FINDING_H
#define ZG_FINDING_H

#include "blocks/lookup.h"
#include "blocks/words.h"
#include "platform/base.h"
#include "platform/ahead.h"
#include "stacks/unwind.h"

enum { ZG_FINDING_DETAILS = 11 };

struct zg_crash; // crash.h

struct zg_finding {
    enum zg_finding_kind kind;
    const char *access;     // the name of one of ZG_ACCESSES
    const char *confidence; // and of ZG_CONFIDENCES
    bool fatal;             // on_finding=abort ends the program; as the kind has it, unless it is said otherwise
    bool is_reported_later; // its text on standard error is written by zg_report_complete, or somebody else says it
    uint64_t address;
    uint64_t repeats; // how often an equal one was met again, where this is about those; 0: it is the first
    bool has_block;
    struct zg_block_view block;
    uint64_t member_code;  // address of the method that was called, or of its record where it is async; 0: not known
    int64_t member_byte;   // byte of the object whose property is meant; negative: none
    uint32_t member_field; // number of the property in the class `member_class`, where that is not 0
    uint64_t member_class;
    // What would have followed, where the object was only retained so far: what of it has a name of the class is the member.
    int next_count;
    struct zg_ahead_use next[ZG_AHEAD_USES];
    uint64_t
        previous_frame; // of an access that had begun before this one, which it meets: a return address; 0: not known
    int thread_tid;     // of another thread than the calling one, with its number; 0: it is that
    uint32_t thread_number;
    const struct zg_crash *crash; // what ends the program by it; NULL: nothing does, or nobody asked
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
const char *zg_finding_kind_name(enum zg_finding_kind kind);
void zg_finding_detail_text(struct zg_finding *finding, const char *name, const char *text);
void zg_finding_detail_number(struct zg_finding *finding, const char *name, uint64_t number, bool hex);

#endif
