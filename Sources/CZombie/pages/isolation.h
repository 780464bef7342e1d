// Isolated blocks: blocks with pages of their own, which become inaccessible when the block is freed. This is the
// heap's interface to them: the decision whether to isolate, allocation, free, and releasing memory. isolation_policy.h
// decides which blocks are isolated, how, and at what cost. private_pages.h and window.h implement the two ways of
// isolation; retire.h makes whole runs of slots inaccessible.
// Slow path; the calling thread is in the runtime.

#ifndef ZG_ISOLATION_H
#define ZG_ISOLATION_H

#include "include/zg_block.h"
#include "pages/isolation_policy.h"
#include "platform/base.h"
#include "stacks/focus.h"
#include "threads/thread.h"

// An allocation that the program asks for.
struct zg_isolation_order {
    uint64_t size, alignment;
    uint32_t context; // allocation stack
    enum zg_alloc_family family;
    bool zero;           // the contents must be zero
    bool is_later;       // considered because a magazine is empty, not because of its context
    uint64_t since;      // start of the work in ticks, set by zg_isolation_want
    enum zg_focus focus; // set by zg_isolation_want
};

// Decides whether and how to isolate the block. Sets `since` and `focus`.
enum zg_isolation zg_isolation_want(struct zg_thread *thread, struct zg_isolation_order *order);
// Allocates the block, makes it live, and counts it for its context. NULL if memory, mappings or address space do not
// suffice. If all blocks are isolated and no window is available, the block gets private pages instead; if the context
// is focused and no private pages are available, it gets a page of a window. `*way` receives how the block was
// isolated.
void *zg_isolation_make(struct zg_thread *thread, const struct zg_isolation_order *order, enum zg_isolation *way);

// Retires a block with private pages, which is in state freeing. `header`: its header before the state changed.
void zg_isolation_end_private(struct zg_thread *thread, struct zg_span *span, uint32_t header);
// Does the same for a block in a window. `since`: start of the work, in ticks.
void zg_isolation_end_in_window(struct zg_thread *thread, struct zg_alias *alias, uint32_t header, uint64_t since);

// Guards all pending pages of freed blocks in windows, and reports writes to these blocks since they were freed.
void zg_isolation_guard_pending(void);
// Verifies the red zones of all live isolated blocks. Returns the number of findings.
uint64_t zg_isolation_verify_live(struct zg_thread *thread, const char *found_by);
// Releases the memory of window chunks that hold no block. Returns the number of bytes.
uint64_t zg_isolation_give_back(void);
// Call when a test of a test bundle starts: begins an epoch, and grants processor time for first blocks of contexts.
void zg_isolation_begin_test(void);

#endif
