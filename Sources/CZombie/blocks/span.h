// Large blocks: spans of whole units of address space. Slow path, under the span lock.

#ifndef ZG_SPAN_H
#define ZG_SPAN_H

#include "blocks/span_table.h"
#include "platform/base.h"

// A span that can hold `size` bytes from an address of this alignment, its memory accessible; NULL where there is none.
// state is not live yet; `*zero` says whether the block reads as zero.
struct zg_span *zg_span_allocate(uint64_t size, uint64_t alignment, bool *zero);
// Takes back a span whose block is dead, for reuse. The record stays readable until the span is used again.
void zg_span_release(struct zg_span *span);
// Opens spans of each size up to 1 MiB, `each` of a size, for a time when nothing more can be opened.
void zg_span_open_reserve(uint32_t each);
// Makes the addresses inaccessible and gives the memory back; they are reused oldest first, once too many are held.
void zg_span_retire(struct zg_span *span);
// Moves the whole pages of one live block into another of at least the size.
enum zg_span_moved {
    zg_span_moved,
    zg_span_unmoved, // nothing has changed
    zg_span_lost,    // the kernel took the pages of `to` away and gives no others: not to be used any more
};
enum zg_span_moved zg_span_move(struct zg_span *from, struct zg_span *to);

uint64_t zg_span_capacity(const struct zg_span *span);
// Gives the memory of free spans back. Returns the bytes.
uint64_t zg_span_trim(void);

void zg_span_lock(void);
void zg_span_unlock(bool reset);

#ifdef ZG_CHECK_INVARIANTS
// What is broken, in words; NULL where all is well. Calls `span` for each span that is kept here (process/invariants.h).
const char *zg_span_broken(void (*span)(uint32_t number, bool retired));
#endif

#endif
