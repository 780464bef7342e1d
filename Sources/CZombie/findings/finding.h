// A finding: the record of one bug. Any context; stateless, allocates nothing.

#ifndef ZG_FINDING_H
#define ZG_FINDING_H

#include "blocks/lookup.h"
#include "blocks/words.h"
#include "platform/base.h"
#include "platform/lookahead_emulator.h"
#include "stacks/unwind.h"

enum { ZG_FINDING_DETAILS = 11 };

struct zg_crash;     // crash.h
struct zg_registers; // platform/arch.h

struct zg_finding {
    enum zg_finding_kind kind;
    const char *access;     // a name of ZG_ACCESSES
    const char *confidence; // a name of ZG_CONFIDENCES
    bool fatal;             // ends the program with on_finding=abort; defaults to the kind's setting
    // zg_report_complete, or the process's own reporter, writes the text to standard error later.
    bool is_reported_later;
    uint64_t address;
    // How often equal findings occurred again, in a record about repeats; 0 in the first report
    uint64_t repeats;
    bool has_block;
    struct zg_block_view block;
    // Address of the called method, or of its record if it is async; 0 if unknown
    uint64_t member_code;
    int64_t member_byte;   // byte offset of the property in the object; negative if none
    uint32_t member_field; // index of the property in `member_class`; valid if `member_class` is not 0
    uint64_t member_class;
    // Uses of the object that the lookahead emulator found after the retain, or after the load of the class. The first
    // use that is a member of the class is reported as the member.
    int next_count;
    struct zg_lookahead_use next[ZG_LOOKAHEAD_USES];
    // Return address in an earlier access that is still in progress and conflicts with this one; 0 if unknown
    uint64_t previous_frame;
    // tid of another thread that made the access; 0: the calling thread
    int thread_tid;
    uint32_t thread_number;
    // Registers at the access; NULL: those of the published function's caller. Valid while the finding is reported.
    const struct zg_registers *registers;
    // The alternate signal stack, with a copy of these registers; 0 if the signal came on the thread's own stack
    uint64_t signal_stack, signal_stack_bytes;
    // Number of the search for other pointers to the block (faults/collector.h); 0: none
    uint64_t search;
    const struct zg_crash *crash; // details if the bug ends the program and crashes are collected; NULL otherwise
    int access_count;
    uint64_t access_stack[ZG_STACK_MAX_DEPTH];
    int detail_count;
    struct {
        const char *name;
        const char *text; // NULL if the value is `number`
        uint64_t number;
        bool hex;
    } details[ZG_FINDING_DETAILS];
};

// Initializes a finding without stacks and details; `view` may be NULL.
void zg_finding_init(struct zg_finding *finding, enum zg_finding_kind kind, const char *access, uint64_t address,
                     const struct zg_block_view *view);
const char *zg_finding_kind_name(enum zg_finding_kind kind);
void zg_finding_detail_text(struct zg_finding *finding, const char *name, const char *text);
void zg_finding_detail_number(struct zg_finding *finding, const char *name, uint64_t number, bool hex);

#endif
