// Creates findings of heap errors and passes them to the report; one function for each kind of heap event. Never
// inlined: a finding is a large local variable, and the caller's stack may be small. Reporting allocates nothing and
// makes plain system calls, so it also runs in signal handlers. The report lock is the innermost: no other lock is
// taken while it is held.

#ifndef ZG_FOUND_H
#define ZG_FOUND_H

#include "findings/finding.h"

// Detail text for an address in memory whose block records were released
#define ZG_FREE_MEMORY "free memory"

// Records the stack of the published function's caller as the access stack.
ZG_NOINLINE void zg_found_capture(struct zg_finding *finding);
// Writes the finding; returns false without writing if an equal finding was written before. If the options ask for it,
// requests that the program be aborted when the runtime is left (zg_thread.deferred_work).
bool zg_found_report(struct zg_finding *finding);
// Adds crash details to a finding with which on_finding=abort ends the program. `end` is storage of the caller, `frame`
// the frame of the published function. The pointer is set at start-up if crashes are collected, otherwise NULL.
extern void (*zg_found_describe_end)(struct zg_finding *finding, struct zg_crash *end, const uint64_t *frame);
// Set if a thread of the process reports findings with symbol names (faults/namer.h), otherwise NULL.
// zg_found_has_namer tells whether that thread is waiting; zg_found_wake_namer requests a report without waiting.
extern bool (*zg_found_has_namer)(void);
extern void (*zg_found_wake_namer)(void);
// Set if zguard can search the process for other pointers to a freed block (faults/collector.h). zg_found_plan_search
// is called before the finding is written, under the report lock, and returns the number of the search, or 0.
// zg_found_search is called after the finding was written, and waits for the search.
extern uint64_t (*zg_found_plan_search)(void);
extern void (*zg_found_search)(const struct zg_finding *finding);
// Whether a fatal finding ends the program.
bool zg_found_may_end(void);
// `never`: later findings do not abort the program, because it is exiting already.
void zg_found_never_abort(bool never);

// -- heap findings; the calling thread is in the runtime. `view` is the block as looked up by the caller --
ZG_NOINLINE void zg_found_double_free(const struct zg_block_view *view, uint64_t address, const char *freed_with);
// `view`: the block that contains the address, or NULL if none does.
ZG_NOINLINE void zg_found_invalid_free(const struct zg_block_view *view, uint64_t address, const char *what,
                                       const char *freed_with);
// Reports an address passed to a function that only queries a block, if no live block begins there. `view`: the block
// that contains the address, which may be freed, or NULL.
ZG_NOINLINE void zg_found_misused(const struct zg_block_view *view, uint64_t address, const char *what,
                                  const char *call);
ZG_NOINLINE void zg_found_dealloc_mismatch(const struct zg_block_view *view, uint64_t address, const char *freed_with,
                                           uint64_t freed_size);
// Changed bytes of a block: `length` bytes from `offset` on. The first of them changed from `old` to `now`.
// zg_found_write_after_free reports those of a freed block.
struct zg_change {
    uint64_t offset, length;
    uint8_t old, now;
    const char *evidence; // reason for choosing the block, if it is inferred: a clause; otherwise NULL
    // Live block that ends in front of the changed bytes, so that a write past its end may have changed them; or NULL
    const struct zg_block_view *in_front;
};
ZG_NOINLINE void zg_found_write_after_free(const struct zg_block_view *view, const struct zg_change *change,
                                           const char *found_by);
// Reports changed bytes in the red zones of an isolated block. `offset` counts from the block's start; read as a signed
// number, it is negative in front of the block. The block is live or being freed.
ZG_NOINLINE void zg_found_overrun(const struct zg_block_view *view, const struct zg_change *change,
                                  const char *found_by);

#endif
