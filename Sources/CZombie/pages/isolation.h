// Isolated blocks: blocks with pages of their own, which become inaccessible when the block dies. This is the one way
// in for the heap: whether a block is to be isolated, making it, its death, and giving memory back. Which blocks are
// isolated, how, and at what cost is decided by isolation_policy.h; private_pages.h and window.h are the two ways, and
// retire.h does the same for whole runs of ordinary blocks.
// Slow path; the calling thread is in the runtime.

#ifndef ZG_ISOLATION_H
#define ZG_ISOLATION_H

#include "include/zg_block.h"
#include "pages/isolation_policy.h"
#include "platform/base.h"
#include "threads/thread.h"

// A block that the program asks for.
struct zg_isolation_order {
    uint64_t size, alignment;
    uint32_t context; // its allocation stack
    enum zg_alloc_family family;
    bool zero;      // its contents are to be zero
    bool is_later;  // not asked for its context, but because a magazine is empty
    uint64_t since; // start of the work, in ticks; set by zg_isolation_want
};

// Whether the block is to be isolated, and how.
enum zg_isolation zg_isolation_want(struct zg_thread *thread, struct zg_isolation_order *order);
// Makes the block, live, and counts its context. NULL where memory, mappings or address space do not suffice. Where all
// blocks are isolated, private pages take the place of a window that cannot be had: `*way` says how the block was made.
void *zg_isolation_make(struct zg_thread *thread, const struct zg_isolation_order *order, enum zg_isolation *way);

// A block with private pages dies, of state freeing. `header` is that from before.
void zg_isolation_end_private(struct zg_thread *thread, struct zg_span *span, uint32_t header);
// A block in a window dies. `since`: the start of the work, in ticks.
void zg_isolation_end_in_window(struct zg_thread *thread, struct zg_alias *alias, uint32_t header, uint64_t since);

// Guards the pages of freed blocks that wait for that, and reports late writes to them.
void zg_isolation_guard_pending(void);
// Verifies the red zones of all live blocks. Returns the number of findings.
uint64_t zg_isolation_verify_live(struct zg_thread *thread, const char *found_by);
// Gives the memory that no block in a window needs back. Returns the bytes.
uint64_t zg_isolation_give_back(void);
// A test of a bundle begins: it has an epoch, and a share of processor time, of its own.
void zg_isolation_begin_test(void);

#endif
