// Allocates blocks: from the thread's magazine, as isolated blocks, or as large spans.
// Hot path: zg_allocate_quickly. Takes no lock; refills of a magazine do. The calling thread is in the runtime.

#include "heap/allocate.h"

#include "blocks/fill.h"
#include "blocks/slab.h"
#include "blocks/span.h"
#include "blocks/tags.h"
#include "heap/quarantine.h"
#include "pages/choice.h"
#include "pages/isolation.h"
#include "pages/retire.h"
#include "platform/arch.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/bypass.h"
#include "settings/stats.h"
#include "threads/capture.h"

static ZG_NOINLINE bool refill(struct zg_thread *thread, uint32_t class) {
    zg_thread_flush_many_counters(thread);
    zg_thread_request_deferred(thread, zg_deferred_maintenance);
    if (zg_slab_is_dry(class)) zg_retire_open(class);
    if (zg_slab_refill(class, &thread->magazines[class])) return true;
    // The class's region is used up, or the kernel refuses memory. Before the caller falls back to libc, evict the
    // oldest quarantined blocks, in growing steps, until a slot of this class is free.
    uint64_t step = zg_max((uint64_t)64 << 10, (uint64_t)ZG_MAGAZINE_SLOTS * zg_class_bytes(class));
    zg_quarantine_flush(thread);
    for (uint64_t held; !thread->magazines[class].count && (held = zg_quarantine_bytes()) != 0;) {
        if (!zg_quarantine_trim(thread, held - zg_min(held, step))) break;
        step *= 2;
    }
    if (thread->magazines[class].count || zg_slab_refill(class, &thread->magazines[class])) return true;
    return zg_retire_reuse(class) && zg_slab_refill(class, &thread->magazines[class]);
}

// Blocks in windows are frequent: flush their counters, and request deferred work, once per this number of blocks.
enum { WINDOWED_PER_FLUSH = 32 };

// Returns an isolated block, if this block is to be isolated now. Otherwise NULL.
static ZG_NOINLINE void *allocate_isolated(struct zg_thread *thread, struct zg_isolation_order *order) {
    if (ZG_UNLIKELY(thread->skips_isolation)) return NULL;
    enum zg_isolation way = zg_isolation_want(thread, order);
    void *block = way != zg_isolation_none ? zg_isolation_make(thread, order, &way) : NULL;
    if (!block) {
        if (!order->is_later && order->focus == zg_focus_none) zg_capture_clear_isolation(thread, order->context);
        return NULL;
    }
    thread->allocations++;
    thread->windowed += way == zg_isolation_window;
    thread->allocated_bytes += order->size;
    if (way == zg_isolation_window && thread->allocations < WINDOWED_PER_FLUSH) return block;
    zg_thread_flush_counters(thread);
    zg_thread_request_deferred(thread, zg_deferred_maintenance);
    return block;
}

uint64_t zg_allocate_quick_end;

void zg_allocate_init(void) {
    bool must_be_slow =
        zg_config.isolated_per_context == ZG_FENCE_ALL || zg_bypass_mode == zg_bypass_sample || zg_config.fill_new;
    zg_allocate_quick_end = must_be_slow ? 0 : ZG_LARGEST_SLOT + 1;
}

struct slot_use {
    enum zg_alloc_family family;
    bool is_tagged;
};

// Makes a live block of the thread's newest free slot of the class. The magazine must not be empty.
ZG_INLINE void *take_slot(struct zg_thread *thread, uint32_t class, uint64_t size, uint32_t stack, struct slot_use use,
                          bool *is_zero) {
    struct zg_magazine *magazine = &thread->magazines[class];
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t left = magazine->count - 1, index = magazine->slots[left];
    magazine->count = left;
    struct zg_block *block = &slab->blocks[index];
    // Prefetch the record and the contents of the next free slot, which are likely cold.
    uint32_t next = magazine->slots[left - (left != 0)];
    zg_arch_prefetch_for_write(&slab->blocks[next]);
    zg_arch_prefetch_for_write((void *)zg_slab_slot_address(slab, next));
    *is_zero = zg_header_state(block->header) == zg_state_fresh;
    if (use.is_tagged) zg_tags_record_former(slab, index);
    zg_thread_record_allocation(thread, block, stack);
    __atomic_store_n(&block->header, zg_block_header(zg_state_live, use.family, slab->slot_bytes - (uint32_t)size),
                     __ATOMIC_RELEASE);
    thread->allocations++;
    thread->allocated_bytes += slab->slot_bytes;
    char *start = (char *)zg_slab_slot_address(slab, index);
    if (!start) __builtin_unreachable(); // callers check that the magazine is not empty
    return start;
}

__attribute__((always_inline)) void *zg_allocate_quickly(struct zg_thread *thread, uint64_t size,
                                                         enum zg_alloc_family family, uint32_t stack, bool *is_zero,
                                                         bool is_tagged) {
    uint32_t class = zg_size_class(size);
    // Memory tags replace isolation, so drop the request for it. The context was counted when its stack was first
    // captured.
    if (is_tagged) stack &= ~ZG_STACK_ISOLATE;
    // The first test is true for stack 0 and for stacks with ZG_STACK_ISOLATE.
    if (ZG_UNLIKELY((int32_t)(stack - 1) < 0 || !thread->magazines[class].count)) return NULL;
    if (is_tagged) thread->tagged++;
    return take_slot(thread, class, size, stack, (struct slot_use){family, is_tagged}, is_zero);
}

// Counts a block that gets a tag instead of isolation. Returns the stack without ZG_STACK_ISOLATE.
static uint32_t note_tagged(struct zg_thread *thread, uint32_t stack) {
    thread->tagged++;
    if (stack & ZG_STACK_ISOLATE) zg_choice_note_tagged(stack & ~ZG_STACK_ISOLATE);
    return stack & ~ZG_STACK_ISOLATE;
}

void *zg_allocate_give_tag(void *start, uint64_t size, uint64_t alignment) {
    uint64_t index, interior;
    const struct zg_slab *slab = zg_slab_find((uint64_t)start, &index, &interior);
    return zg_tags_set(slab, index, size, alignment);
}

void *zg_allocate_slot(struct zg_thread *thread, uint32_t class, uint64_t size, uint64_t alignment,
                       enum zg_alloc_family family, bool zero) {
    struct zg_magazine *magazine = &thread->magazines[class];
    uint32_t stack = zg_capture_uncached(thread, true);
    bool tagged = zg_tags_are_on() && alignment < ZG_PAGE_BYTES;
    if (tagged) stack = note_tagged(thread, stack);
    if (ZG_UNLIKELY(stack & ZG_STACK_ISOLATE)) {
        stack &= ~ZG_STACK_ISOLATE;
        struct zg_isolation_order order = {size, alignment, stack, family, zero, false, 0, zg_focus_none};
        void *isolated = allocate_isolated(thread, &order);
        if (isolated) return isolated;
    }
    if (ZG_UNLIKELY(!magazine->count)) {
        class = zg_slab_serving_class(class);
        magazine = &thread->magazines[class];
    }
    if (ZG_UNLIKELY(!magazine->count)) {
        if (zg_config.isolated_per_context && !tagged) {
            struct zg_isolation_order order = {size, alignment, stack, family, zero, true, 0, zg_focus_none};
            void *isolated = allocate_isolated(thread, &order);
            if (isolated) return isolated;
        }
        if (!refill(thread, class)) return NULL;
    }
    bool is_zero;
    void *start = take_slot(thread, class, size, stack, (struct slot_use){family, zg_tags_are_on()}, &is_zero);
    if (zero) {
        if (!is_zero) __builtin_memset(start, 0, size);
    } else if (ZG_UNLIKELY(zg_config.fill_new)) {
        zg_fill(start, zg_class_bytes(class), ZG_FILL_NEW);
    }
    return zg_tags_are_on() ? zg_allocate_give_tag(start, size, alignment) : start;
}

static ZG_NOINLINE void *allocate_span(struct zg_thread *thread, uint64_t size, uint64_t alignment,
                                       enum zg_alloc_family family, bool zero) {
    uint32_t stack = zg_capture(thread, true);
    if (stack & ZG_STACK_ISOLATE) {
        stack &= ~ZG_STACK_ISOLATE;
        struct zg_isolation_order order = {size, alignment, stack, family, zero, false, 0, zg_focus_none};
        void *isolated = allocate_isolated(thread, &order);
        if (isolated) return isolated;
    }
    bool is_zero;
    struct zg_span *span = zg_span_allocate(size, alignment, &is_zero);
    if (!span && zg_quarantine_trim(thread, 0)) span = zg_span_allocate(size, alignment, &is_zero);
    if (!span) return NULL;
    zg_thread_record_allocation(thread, &span->block, stack);
    uint32_t sparse = is_zero ? ZG_HEADER_SPARSE : span->block.header & ZG_HEADER_SPARSE;
    __atomic_store_n(&span->block.header, zg_block_header(zg_state_live, family, 0) | sparse, __ATOMIC_RELEASE);
    if (zero) {
        if (!is_zero) __builtin_memset((void *)span->start, 0, size);
    } else if (zg_config.fill_new) {
        __builtin_memset((void *)span->start, ZG_FILL_NEW, size);
    }
    thread->allocations++;
    thread->allocated_bytes += size;
    zg_thread_flush_counters(thread);
    zg_thread_request_deferred(thread, zg_deferred_maintenance);
    return (void *)span->start;
}

// Returns the smallest class whose slots hold `size` bytes and all have this alignment; ZG_CLASS_COUNT if none does.
static uint32_t aligned_class(uint64_t size, uint64_t alignment) {
    if (size > ZG_LARGEST_SLOT || alignment > ZG_PAGE_BYTES) return ZG_CLASS_COUNT;
    uint32_t class = zg_size_class(size);
    while (class < ZG_CLASS_COUNT && zg_class_bytes(class) & (alignment - 1)) class++;
    return class;
}

void *zg_allocate(struct zg_thread *thread, uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero) {
    if (zg_config.isolated_per_context == ZG_FENCE_ALL || zg_bypass_mode == zg_bypass_sample) {
        uint32_t stack = zg_capture(thread, true) & ~ZG_STACK_ISOLATE;
        struct zg_isolation_order order = {size, alignment, stack, family, zero, false, 0, zg_focus_none};
        void *block = allocate_isolated(thread, &order);
        if (block || (zg_bypass_mode == zg_bypass_sample && !zg_bypass_may_fail)) return block;
    }
    if (ZG_LIKELY(alignment <= 16 && size <= ZG_LARGEST_SLOT))
        return zg_allocate_slot(thread, zg_size_class(size), size, alignment, family, zero);
    uint32_t class = aligned_class(size, alignment);
    if (class < ZG_CLASS_COUNT) return zg_allocate_slot(thread, class, size, alignment, family, zero);
    return allocate_span(thread, size, alignment, family, zero);
}
