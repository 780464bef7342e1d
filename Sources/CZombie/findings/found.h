// What is found is made a finding of and passed to the report; one function for each kind of event in the heap.
// Never in line: a finding is large, and a caller that has none to make may have little stack.
// Reporting allocates nothing and uses plain system calls, so it also runs in signal handlers. Rank of the report lock: the
// last; nothing is taken under it.

#ifndef ZG_FOUND_H
#define ZG_FOUND_H

#include "findings/finding.h"

// What an address is, in details: memory whose blocks are forgotten.
#define ZG_FREE_MEMORY "free memory"

// The access's stack is that of whoever called the published function that this thread is in.
ZG_NOINLINE void zg_found_capture(struct zg_finding *finding);
// Writes the finding out, unless an equal one was. The program's end, where the options ask for it, is wanted through
// zg_thread.errands and comes when the runtime is left. False: an equal one was.
bool zg_found_report(struct zg_finding *finding);
// Completes a finding by which abort ends the program with what is said of crashes; the record is the caller's, `frame` that of the published
// function. Set at the start where crashes are collected.
extern void (*zg_found_describe_end)(struct zg_finding *finding, struct zg_crash *end, const uint64_t *frame);
// Findings after this do not end the program (it is ending, or somebody asked from outside).
void zg_found_never_abort(bool never);

// -- findings of the heap; the calling thread is entered. `view` is the block as the caller has looked it up --
ZG_NOINLINE void zg_found_double_free(const struct zg_block_view *view, uint64_t address, const char *freed_with);
// `view`: the block that the address lies in; NULL where it lies in none.
ZG_NOINLINE void zg_found_invalid_free(const struct zg_block_view *view, uint64_t address, const char *what,
                                       const char *freed_with);
// A function that only asks about a block was given what is none: `view` as above, the block may be dead.
ZG_NOINLINE void zg_found_misused(const struct zg_block_view *view, uint64_t address, const char *what,
                                  const char *call);
ZG_NOINLINE void zg_found_dealloc_mismatch(const struct zg_block_view *view, uint64_t address, const char *freed_with,
                                           uint64_t freed_size);
// Bytes of a dead block that changed: from `offset` on, the first one from `old` to `now`.
struct zg_change {
    uint64_t offset, length;
    uint8_t old, now;
};
ZG_NOINLINE void zg_found_write_after_free(const struct zg_block_view *view, const struct zg_change *change,
                                           const char *found_by);
// Bytes around a block with pages of its own changed; `offset` is from the block's start, negative as a signed number where
// they lie in front of it. The block is live, or being freed.
ZG_NOINLINE void zg_found_overrun(const struct zg_block_view *view, const struct zg_change *change,
                                  const char *found_by);

#endif
