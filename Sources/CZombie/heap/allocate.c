// Allocates blocks: from the thread's magazine, as isolated blocks, or as large spans.
// Hot path: zg_allocate_quickly. Takes no lock; refills of a magazine do. The calling thread is in the runtime.

#include "heap/allocate.h"

#include "blocks/fill.h"
#include "blocks/slab.h"
#include "blocks/span.h"
#include "blocks/tags.h"
#include "heap/quarantine.h"
#include "pages/choice.h"
#include "pages/fence.h"
#include "pages/overread.h"
#include "pages/page_time.h"
#include "pages/retire.h"
#include "pages/window.h"
#include "platform/arch.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/bypass.h"
#include "settings/stats.h"
#include "threads/capture.h"

static ZG_NOINLINE bool refill(struct zg_thread *thread, uint32_t class) {
    zg_thread_flush_counters(thread);
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

// Atomic, because other threads may read the record at the same time (lookup.h).
ZG_INLINE void record_allocation(struct zg_block *block, uint32_t stack, const struct zg_thread *thread) {
    __atomic_store_n(&block->alloc_stack, stack, __ATOMIC_RELAXED);
    __atomic_store_n(&block->alloc_thread, thread->number_in_records, __ATOMIC_RELAXED);
}

// Larger blocks are not isolated. Accesses to freed blocks of ZG_RETIRE_LEAST bytes and more fault without isolation,
// so isolation would only add the detection of overruns.
#define ISOLATED_BYTES_MOST ((uint64_t)64 << 20)

// Number of blocks in windows after which the thread's counters are flushed and maintenance is requested.
enum { WINDOWED_PER_FLUSH = 32 };

// The arguments of a call of malloc or a similar function.
struct request {
    uint64_t size, alignment;
    enum zg_alloc_family family;
    bool zero; // for calloc: the block must read as zeros
};

static void *allocate_windowed(struct zg_thread *thread, uint32_t context, const struct request *request) {
    uint64_t size = request->size;
    uint64_t ticks = zg_page_time_start();
    struct zg_alias *alias = zg_window_allocate(size, request->alignment, request->zero, context);
    if (!alias) return NULL;
    zg_choice_note(context, thread->frame[1]);
    record_allocation(&alias->block, context, thread);
    void *block = (void *)zg_alias_start(alias);
    if (zg_config.fill_new && !request->zero) __builtin_memset(block, ZG_FILL_NEW, size);
    __atomic_store_n(&alias->block.header,
                     zg_block_header(zg_state_live, request->family, alias->slot_bytes - (uint32_t)size),
                     __ATOMIC_RELEASE);
    thread->allocations++;
    thread->windowed++;
    thread->allocated_bytes += size;
    zg_page_time_spent(ticks, 1);
    zg_page_time_charge_window();
    if (thread->allocations >= WINDOWED_PER_FLUSH) {
        zg_thread_flush_counters(thread);
        zg_thread_request_deferred(thread, zg_deferred_maintenance);
    }
    return block;
}

// Returns an isolated block if one is due for the context, otherwise NULL. `later`: the block is not among the
// context's first.
static ZG_NOINLINE void *allocate_isolated(struct zg_thread *thread, uint32_t context, const struct request *request,
                                           bool later) {
    uint64_t size = request->size;
    struct zg_span *span = NULL;
    if (ZG_UNLIKELY(thread->skips_isolation)) return NULL;
    uint64_t ticks = zg_page_time_start();
    // In a window, the rest of the slot follows the block, so a window cannot hold blocks that must end exactly at the
    // guard page (fence_align), nor blocks of 0 bytes, which consist of the guard page alone.
    bool can_window = size && size <= ZG_WINDOW_MOST && zg_config.fence_align == zg_fence_align_16;
    uint64_t caller = can_window ? thread->frame[1] : 0;
    enum zg_choice choice = size <= ISOLATED_BYTES_MOST ? zg_choose(context, size, later, caller) : zg_choice_none;
    bool wanted = choice != zg_choice_none;
    if (choice == zg_choice_window) {
        void *block = allocate_windowed(thread, context, request);
        if (block) return block;
        // In profile fence, fall back to private pages while memory for them lasts.
        wanted = zg_config.fence_per_context == ZG_FENCE_ALL;
    }
    if (size > ISOLATED_BYTES_MOST) zg_coverage_declined(zg_coverage_reason_block_size);
    if (wanted) span = zg_fence_allocate(size, request->alignment, request->family, context);
    if (!span) {
        if (wanted) zg_stats_add(zg_counter_fence_declined, 1);
        if (wanted && zg_config.fence_per_context == ZG_FENCE_ALL) zg_stats_degrade(zg_degradation_fence_exhausted);
        if (!later) zg_capture_clear_isolation(thread);
        return NULL;
    }
    zg_choice_note(context, caller);
    record_allocation(&span->block, context, thread);
    __atomic_store_n(&span->block.header, zg_block_header(zg_state_live, request->family, 0), __ATOMIC_RELEASE);
    zg_overread_note(span);
    if (zg_config.fill_new && !request->zero) __builtin_memset((void *)span->start, ZG_FILL_NEW, size);
    thread->allocations++;
    thread->allocated_bytes += size;
    zg_page_time_spent(ticks, span->units);
    // Charge the page faults that the block will still cause. One page is touched already; at most 16 pages count,
    // because most large blocks are not used in full.
    zg_page_time_charge(zg_min(span->units - 2, 16));
    zg_thread_flush_counters(thread);
    zg_thread_request_deferred(thread, zg_deferred_maintenance);
    return (void *)span->start;
}

uint64_t zg_allocate_quick_end;

void zg_allocate_init(void) {
    bool must_be_slow =
        zg_config.fence_per_context == ZG_FENCE_ALL || zg_bypass_mode == zg_bypass_sample || zg_config.fill_new;
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
    __builtin_prefetch(&slab->blocks[next], 1);
    __builtin_prefetch((void *)zg_slab_slot_address(slab, next), 1);
    *is_zero = zg_header_state(block->header) == zg_state_fresh;
    if (use.is_tagged) zg_tags_record_former(slab, index);
    record_allocation(block, stack, thread);
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
    // Memory tags replace isolation. The context was counted when its stack was first captured.
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
        void *fenced = allocate_isolated(thread, stack, &(struct request){size, alignment, family, zero}, false);
        if (fenced) return fenced;
    }
    if (ZG_UNLIKELY(!magazine->count)) {
        class = zg_slab_serving_class(class);
        magazine = &thread->magazines[class];
    }
    if (ZG_UNLIKELY(!magazine->count)) {
        void *fenced = zg_config.fence_per_context && !tagged
                           ? allocate_isolated(thread, stack, &(struct request){size, alignment, family, zero}, true)
                           : NULL;
        if (fenced) return fenced;
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
        void *fenced = allocate_isolated(thread, stack, &(struct request){size, alignment, family, zero}, false);
        if (fenced) return fenced;
    }
    bool is_zero;
    struct zg_span *span = zg_span_allocate(size, alignment, &is_zero);
    if (!span && zg_quarantine_trim(thread, 0)) span = zg_span_allocate(size, alignment, &is_zero);
    if (!span) return NULL;
    record_allocation(&span->block, stack, thread);
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

// Returns the smallest class whose slots all have this alignment, or ZG_CLASS_COUNT.
static uint32_t aligned_class(uint64_t size, uint64_t alignment) {
    if (size > ZG_LARGEST_SLOT || alignment > ZG_PAGE_BYTES) return ZG_CLASS_COUNT;
    uint32_t class = zg_size_class(size);
    while (class < ZG_CLASS_COUNT && zg_class_bytes(class) & (alignment - 1)) class ++;
    return class;
}

void *zg_allocate(struct zg_thread *thread, uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero) {
    if (zg_config.fence_per_context == ZG_FENCE_ALL || zg_bypass_mode == zg_bypass_sample) {
        uint32_t stack = zg_capture(thread, true) & ~ZG_STACK_ISOLATE;
        void *block = allocate_isolated(thread, stack, &(struct request){size, alignment, family, zero}, false);
        if (block || (zg_bypass_mode == zg_bypass_sample && !zg_bypass_may_fail)) return block;
    }
    if (ZG_LIKELY(alignment <= 16 && size <= ZG_LARGEST_SLOT))
        return zg_allocate_slot(thread, zg_size_class(size), size, alignment, family, zero);
    uint32_t class = aligned_class(size, alignment);
    if (class < ZG_CLASS_COUNT) return zg_allocate_slot(thread, class, size, alignment, family, zero);
    return allocate_span(thread, size, alignment, family, zero);
}
