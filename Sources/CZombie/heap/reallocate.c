// Blocks change their size: in place, by moving the pages of large ones, or by another block that takes the contents.
// Slow path; no lock of its own. The calling thread is entered.

#include "heap/reallocate.h"

#include "blocks/alias.h"
#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "blocks/span.h"
#include "heap/allocate.h"
#include "heap/free.h"

// Resizes in place where the block's slot or span fits the new size without wasting more than half of it.
static bool resize_in_place(const struct zg_block_view *view, uint64_t size) {
    if (zg_slab_contains(view->start)) {
        if (size > ZG_LARGEST_SLOT) return false;
        uint64_t index, interior;
        struct zg_slab *slab = zg_slab_find(view->start, &index, &interior);
        if (size > slab->slot_bytes || size <= slab->slot_bytes / 2) return false;
        __atomic_store_n(&view->block->header,
                         zg_block_header(zg_state_live, view->kind, slab->slot_bytes - (uint32_t)size),
                         __ATOMIC_RELEASE);
        return true;
    }
    if (zg_alias_contains(view->start)) return size == view->size;
    struct zg_span *span = zg_span_find(view->start);
    uint64_t capacity = zg_span_capacity(span);
    if (span->fenced) return size == view->size;
    if (size > capacity || size <= ZG_LARGEST_SLOT || size < capacity / 2) return false;
    zg_span_resize(span, size);
    return true;
}

void *zg_reallocate(struct zg_thread *thread, uint64_t address, uint64_t size) {
    struct zg_block_view view;
    if (!zg_lookup_block(address, &view) || view.offset != 0 || view.state != zg_state_live) {
        zg_free_dead(address, zg_deallocator_realloc);
        return zg_allocate(thread, size, 16, zg_kind_malloc, false); // on_finding=continue: a block to go on with
    }
    if (zg_mismatch_is_possible(view.kind, zg_deallocator_realloc, view.size, ZG_ANY_SIZE))
        zg_free_check_mismatch(thread, address, zg_deallocator_realloc, ZG_ANY_SIZE);
    if (resize_in_place(&view, size)) {
        int64_t by = zg_slab_contains(address) ? 0 : (int64_t)(size - view.size);
        if (by > 0) thread->allocated_bytes += (uint64_t)by;
        else thread->freed_bytes += (uint64_t)-by;
        return (void *)address;
    }
    void *block = zg_allocate(thread, size, 16, zg_kind_malloc, false);
    if (!block) return NULL;
    struct zg_span *from = view.size >= ZG_RETIRE_LEAST ? zg_span_find(address) : NULL;
    struct zg_span *to = from ? zg_span_find((uint64_t)block) : NULL;
    enum zg_span_moved moved = to ? zg_span_move(from, to) : zg_span_unmoved;
    if (ZG_UNLIKELY(moved == zg_span_lost)) {
        // The old block stays as it is. The new one is dead and never used again.
        __atomic_store_n(&to->block.header, zg_header_in_state(to->block.header, zg_state_retired), __ATOMIC_RELEASE);
        thread->frees++;
        thread->freed_bytes += to->size;
        return NULL;
    }
    if (moved == zg_span_unmoved) __builtin_memcpy(block, (void *)address, zg_min(view.size, size));
    zg_free_entered(thread, address, zg_deallocator_moved, ZG_ANY_SIZE);
    return block;
}
