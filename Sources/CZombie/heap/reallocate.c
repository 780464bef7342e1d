// Resizes blocks: in place, by moving the pages of large blocks, or by copying into a new block. Hot path:
// zg_reallocate_quickly; no lock of its own. The calling thread is in the runtime.

#include "heap/reallocate.h"

#include "blocks/alias.h"
#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "blocks/span.h"
#include "blocks/tags.h"
#include "heap/allocate.h"
#include "heap/free.h"
#include "pages/locked.h"
#include "threads/capture.h"

// Returns true if the slot holds the new size without wasting more than half of its bytes.
ZG_INLINE bool fits_slot(const struct zg_slab *slab, uint64_t size) {
    return size <= slab->slot_bytes && size > slab->slot_bytes / 2;
}

ZG_INLINE bool resize_in_slot(const struct zg_slab *slab, struct zg_block *block, enum zg_alloc_family family,
                              uint64_t size) {
    if (!fits_slot(slab, size)) return false;
    __atomic_store_n(&block->header, zg_block_header(zg_state_live, family, slab->slot_bytes - (uint32_t)size),
                     __ATOMIC_RELEASE);
    return true;
}

// Resizes in place if the slot or span holds the new size without wasting more than half of its bytes; an isolated
// block only if its size does not change.
static bool resize_in_place(const struct zg_block_view *view, uint64_t size) {
    if (zg_slab_contains(view->start)) {
        uint64_t index, interior;
        const struct zg_slab *slab = zg_slab_find(view->start, &index, &interior);
        if (zg_tags_are_on() && fits_slot(slab, size)) {
            zg_free_check_gap(slab, index, view->size);
            zg_tags_resize(slab, index, view->size, size);
        }
        return resize_in_slot(slab, view->block, view->family, size);
    }
    if (zg_alias_contains(view->start)) return size == view->size;
    struct zg_span *span = zg_span_find(view->start);
    uint64_t capacity = zg_span_capacity(span);
    if (span->protection) return size == view->size;
    if (size > capacity || size <= ZG_LARGEST_SLOT || size < capacity / 2) return false;
    zg_span_resize(span, size);
    return true;
}

// One capture of the stack serves both the allocation of the new block and the free of the old one.
void *zg_reallocate_quickly(struct zg_thread *thread, uint64_t address, uint64_t size, const uint64_t *frame) {
    struct zg_slab *slab;
    uint64_t index;
    if (zg_tags_are_on()) return NULL;
    if (ZG_UNLIKELY(!zg_slab_contains(address) || size >= zg_allocate_quick_end)) return NULL;
    if (ZG_UNLIKELY(!zg_slab_find_start(address, &slab, &index))) return NULL;
    struct zg_block *block = &slab->blocks[index];
    uint32_t header = __atomic_load_n(&block->header, __ATOMIC_ACQUIRE), stack;
    if (ZG_UNLIKELY(zg_header_state(header) != zg_state_live || zg_header_family(header) != zg_family_malloc))
        return NULL;
    if (resize_in_slot(slab, block, zg_family_malloc, size)) return (void *)address;
    bool is_zero;
    void *moved = (stack = zg_capture_cached(thread, frame)) == 0
                      ? NULL
                      : zg_allocate_quickly(thread, size, zg_family_malloc, stack, &is_zero, false);
    if (ZG_UNLIKELY(!moved)) return NULL;
    __builtin_memcpy(moved, (void *)address, zg_min(zg_slab_requested(slab, header), size));
    struct zg_pending_free pending;
    switch (zg_free_quickly(thread,
                            (struct zg_free_call){address, zg_deallocator_realloc_old, ZG_ANY_SIZE, frame, stack},
                            &pending, false)) {
    case zg_free_declined: zg_free_entered(thread, address, zg_deallocator_realloc_old, ZG_ANY_SIZE); break;
    case zg_free_claimed: zg_free_finish(thread, address, pending); break;
    case zg_free_done: break;
    case zg_free_done_list_full: zg_free_flush_pending(thread); break;
    }
    return moved;
}

void *zg_reallocate(struct zg_thread *thread, uint64_t pointer, uint64_t size) {
    struct zg_block_view view;
    uint64_t address = zg_arch_address(pointer);
    if (!zg_lookup_block(pointer, &view) || view.offset != 0 || view.state != zg_state_live) {
        zg_free_report_bad(pointer, zg_deallocator_realloc);
        return zg_allocate(thread, size, 16, zg_family_malloc, false); // on_finding=continue: return a new block
    }
    if (zg_mismatch_is_possible(view.family, zg_deallocator_realloc, view.size, ZG_ANY_SIZE))
        zg_free_check_mismatch(thread, address, zg_deallocator_realloc, ZG_ANY_SIZE);
    if (zg_tags_are_on()) pointer = zg_tags_pointer(address);
    if (resize_in_place(&view, size)) {
        int64_t by = zg_slab_contains(address) ? 0 : (int64_t)(size - view.size);
        if (by > 0) thread->allocated_bytes += (uint64_t)by;
        else thread->freed_bytes += (uint64_t)-by;
        return (void *)pointer;
    }
    void *block = zg_allocate(thread, size, 16, zg_family_malloc, false);
    if (!block) return NULL;
    struct zg_span *from = view.size >= ZG_RETIRE_LEAST ? zg_span_find(address) : NULL;
    struct zg_span *to = from ? zg_span_find((uint64_t)block) : NULL;
    enum zg_span_moved moved = to ? zg_span_move(from, to) : zg_span_unmoved;
    if (ZG_UNLIKELY(moved == zg_span_lost)) {
        // The old block is unchanged. The new block has lost its pages and is never used again.
        __atomic_store_n(&to->block.header, zg_header_in_state(to->block.header, zg_state_retired), __ATOMIC_RELEASE);
        thread->frees++;
        thread->freed_bytes += to->size;
        return NULL;
    }
    if (moved == zg_span_moved && zg_locked_any()) zg_locked_moved(address, (uint64_t)block, zg_min(view.size, size));
    if (moved == zg_span_unmoved) __builtin_memcpy(block, (void *)pointer, zg_min(view.size, size));
    zg_free_entered(thread, address, zg_deallocator_realloc_old, ZG_ANY_SIZE);
    return block;
}
