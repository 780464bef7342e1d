// Large blocks: spans of whole units of address space, found from any address inside through the unit map.
// Lookups: any context, no lock. Everything else: slow path, under the span lock.

#ifndef ZG_SPAN_H
#define ZG_SPAN_H

#include "include/zg_block.h"
#include "platform/base.h"

#define ZG_UNIT_BYTES ((uint64_t)65536)

// Reserves the area for large blocks, and behind it one for fenced blocks (fence.h). False where the address space does not
// allow it.
bool zg_span_init(uint64_t area_bytes, uint64_t fence_bytes);
// A record for a fenced block, which is never given back. NULL where there is no memory for one.
struct zg_span *zg_span_record(void);

// A span that can hold `size` bytes from an address of this alignment, its memory accessible; NULL where there is none.
// state is not live yet; `*zero` says whether the block reads as zero.
struct zg_span *zg_span_allocate(uint64_t size, uint64_t alignment, bool *zero);
// Takes back a span whose block is dead, for reuse. The record stays readable until the span is used again.
void zg_span_release(struct zg_span *span);
// Makes the addresses inaccessible and gives the memory back; they are reused oldest first, once too many are held.
void zg_span_retire(struct zg_span *span);
// Moves the whole pages of one live block into another of at least the size.
enum zg_span_moved {
    zg_span_moved,
    zg_span_unmoved, // nothing has changed
    zg_span_lost,    // the kernel took the pages of `to` away and gives no others: not to be used any more
};
enum zg_span_moved zg_span_move(struct zg_span *from, struct zg_span *to);

// The span that holds the address, in whatever state; NULL where no span was ever there.
struct zg_span *zg_span_find(uint64_t address);
bool zg_span_contains(uint64_t address);
void zg_span_area(uint64_t *start, uint64_t *bytes);
uint64_t zg_span_capacity(const struct zg_span *span);
uint32_t zg_span_number(const struct zg_span *span);
struct zg_span *zg_span_by_number(uint32_t number); // of a span that exists
bool zg_span_exists(uint32_t number);
uint64_t zg_span_trim(void);

void zg_span_lock(void);
void zg_span_unlock(bool reset);

#endif
