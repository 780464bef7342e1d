// Large blocks: spans of whole units of address space. Slow path, under the span lock.

#ifndef ZG_SPAN_H
#define ZG_SPAN_H

#include "blocks/span_table.h"
#include "platform/base.h"

// Returns an accessible span that can hold `size` bytes at this alignment, or NULL. Its state is not live yet. `*zero`:
// the block reads as zeros.
struct zg_span *zg_span_allocate(uint64_t size, uint64_t alignment, bool *zero);
// Takes back the span of a freed block for reuse. The record stays readable until the span is reused.
void zg_span_release(struct zg_span *span);
// Commits `each` spans of every size up to 1 MiB. Call before a seccomp filter forbids committing.
void zg_span_open_reserve(uint32_t each);
// Changes the size of a block within zg_span_capacity.
void zg_span_resize(struct zg_span *span, uint64_t size);
// Retires a freed span: makes its addresses inaccessible, and releases the memory. `movable` (the program is not
// expected to have remapped the pages): if the limit of free spans permits, moves the memory to another span for the
// next block instead of releasing it. Retired spans are reused, oldest first, once there are too many. False if the
// kernel refuses to retire the span, which is then reused at once.
bool zg_span_retire(struct zg_span *span, bool movable);
// Moves the pages of a live block into another block of at least the same size.
enum zg_span_moved {
    zg_span_moved,
    zg_span_unmoved, // nothing has changed
    // The kernel unmapped the pages of `to` and refuses to map new ones: `to` must not be used again.
    zg_span_lost,
};
enum zg_span_moved zg_span_move(struct zg_span *from, struct zg_span *to);

uint64_t zg_span_capacity(const struct zg_span *span);
// Releases the memory of free spans. Returns the bytes.
uint64_t zg_span_trim(void);

void zg_span_lock(void);
void zg_span_unlock(bool reset);

#ifdef ZG_CHECK_INVARIANTS
// Returns a description of a broken invariant, or NULL. Calls `span` for each free or retired span
// (process/invariants.h).
const char *zg_span_broken(void (*span)(uint32_t number, bool retired));
#endif

#endif
