// Decides how close to the end of a page a block with private pages ends, if isolated_align leaves that open. The less
// aligned a block is, the more over-reads reach its guard page, and the more programs end or slow down because they
// rely on malloc's alignment. So a block is less aligned only if it is small, or if it holds a string, as earlier
// blocks of the same code did. docs/design/034-exact-ends.md has the reasons.
// Any context, no lock.

#ifndef ZG_EXACT_ENDS_H
#define ZG_EXACT_ENDS_H

#include "include/zg_block.h"
#include "platform/base.h"

// Maps the table of contexts. False if the kernel refuses. Called at the start.
bool zg_exact_end_init(void);
// Returns the alignment of the block's end, 1 to 16 bytes. `family` must be one without a requested alignment. Not for
// signal handlers.
uint64_t zg_exact_end_alignment(uint64_t size, enum zg_alloc_family family, uint32_t context);
// Returns the alignment of the block's end for a context in which an earlier run found an overrun of less than 16
// bytes: the block ends exactly at the guard page, unless pointers to it may have tags.
uint64_t zg_exact_end_focused_alignment(uint64_t size, uint32_t context);
// Call when the start of a block of this context was passed to a string function.
void zg_exact_end_note_string(uint32_t context);
// Call when an instruction that needs alignment faulted on a block of this context. From then on, all blocks of this
// caller of malloc are aligned, because its other contexts may use code of the same compiler.
void zg_exact_end_note_fault(uint32_t context);

#endif
