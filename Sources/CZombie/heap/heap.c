// The guarded heap: the hot path of malloc and free, and what surrounds it.
//
// free, in order: block from the address by arithmetic -> live to freeing by compare-and-swap (the loser of a race is a
// double free) -> stack and thread recorded -> filled -> quarantined -> handed over.
// Hot path. Takes no lock itself; refills and flushes do.

#include "heap/heap.h"

#include <errno.h>
#include <sys/single_threaded.h>

#include "findings/finding.h"
#include "heap/fill.h"
#include "heap/foreign.h"
#include "heap/lookup.h"
#include "heap/mismatch.h"
#include "heap/quarantine.h"
#include "heap/slab.h"
#include "heap/span.h"
#include "limits/budget.h"
#include "limits/maintenance.h"
#include "limits/pressure.h"
#include "limits/sample.h"
#include "pages/fence.h"
#include "pages/overread.h"
#include "pages/retire.h"
#include "platform/os.h"
#include "process/runtime.h"
#include "process/thread.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "zombies/zombie.h"

// Larger blocks give their pages back at once when they are freed: filling them costs as much as faulting fresh pages in,
// and every later access is seen at the instruction.
#define RETIRE_LEAST ((uint64_t)1 << 20)

// Programs that ask for an alignment may use the pages by themselves (guard pages, write protection, files mapped over them,
// advice for fork), and free then is not to touch them: from the size on from which libc has a mapping for a block.
#define RETIRE_LEAST_ALIGNED ((uint64_t)128 << 10)
#define ALIGNED_KINDS (ZG_K(aligned) | ZG_K(new_aligned) | ZG_K(new_array_aligned))

static const uint32_t accepted_kinds[zg_deallocator_count] = {
#define ZG_X(name, text, mask) mask,
    ZG_DEALLOCATORS(ZG_X)
#undef ZG_X
};

// What every slow allocation or free is an occasion for.
static void look_around(struct zg_thread *thread) {
    zg_heap_answer_requests(thread);
    zg_maintenance_look(thread);
    zg_overread_look();
}

static ZG_NOINLINE bool refill(struct zg_thread *thread, uint32_t class) {
    zg_thread_flush_counters(thread);
    look_around(thread);
    if (thread->magazines[class].count) return true; // what left the quarantine meanwhile
    if (zg_slab_refill(class, &thread->magazines[class])) return true;
    // The region is used up, or the kernel gives no more: what the quarantine holds of this class is the last resort before
    // libc. The oldest blocks first, and no more of them than it takes.
    uint64_t step = zg_max((uint64_t)64 << 10, (uint64_t)ZG_MAGAZINE_SLOTS * zg_class_bytes(class));
    zg_quarantine_flush(thread);
    for (uint64_t held; !thread->magazines[class].count && (held = zg_quarantine_bytes()) != 0;) {
        if (!zg_quarantine_trim(thread, held - zg_min(held, step))) break;
        step *= 2;
    }
    if (thread->magazines[class].count || zg_slab_refill(class, &thread->magazines[class])) return true;
    return zg_retire_reuse(class) && zg_slab_refill(class, &thread->magazines[class]);
}

// Who made and who freed a block. Others may look at the record meanwhile (lookup.h).
ZG_INLINE void note_maker(struct zg_block *block, uint32_t stack, const struct zg_thread *thread) {
    __atomic_store_n(&block->alloc_stack, stack, __ATOMIC_RELAXED);
    __atomic_store_n(&block->alloc_thread, thread->number_in_records, __ATOMIC_RELAXED);
}
ZG_INLINE void note_freer(struct zg_block *block, uint32_t stack, const struct zg_thread *thread) {
    __atomic_store_n(&block->free_stack, stack, __ATOMIC_RELAXED);
    __atomic_store_n(&block->free_thread, thread->number_in_records, __ATOMIC_RELAXED);
}

// Larger blocks get no pages of their own: from RETIRE_LEAST on they have them anyway, but for overruns.
#define FENCE_MOST ((uint64_t)64 << 20)

// A block with pages of its own, if the context is to have one now. `later`: not one of the context's first.
static ZG_NOINLINE void *allocate_fenced(struct zg_thread *thread, uint32_t context, uint64_t size, uint64_t alignment,
                                         enum zg_kind kind, bool zero, bool later) {
    struct zg_span *span = NULL;
    uint64_t ticks = zg_arch_ticks();
    bool wanted = size <= FENCE_MOST && zg_fence_wants(context, later);
    if (wanted) span = zg_fence_allocate(size, alignment);
    if (!span) {
        if (wanted) zg_stats_add(zg_counter_fence_declined, 1);
        if (wanted && zg_config.fence_per_context == ZG_FENCE_ALL) zg_stats_degrade(zg_degradation_fence_exhausted);
        if (!later) zg_thread_settle_context(thread);
        return NULL;
    }
    zg_fence_note(context);
    note_maker(&span->block, context, thread);
    __atomic_store_n(&span->block.header, zg_block_header(zg_state_live, kind, 0), __ATOMIC_RELEASE);
    zg_overread_note(span);
    if (zg_config.fill_new && !zero) __builtin_memset((void *)span->start, ZG_FILL_NEW, size);
    thread->allocations++;
    thread->allocated_bytes += size;
    zg_budget_fence_spent(ticks, span->units);
    zg_budget_fence_charge(zg_min(span->units - 1, 16)); // most large blocks are not used in full
    zg_thread_flush_counters(thread);
    look_around(thread);
    return (void *)span->start;
}

ZG_INLINE void *allocate_slot(struct zg_thread *thread, uint32_t class, uint64_t size, uint64_t alignment, enum zg_kind kind,
                              bool zero) {
    struct zg_magazine *magazine = &thread->magazines[class];
    uint32_t stack = zg_thread_capture(thread, true);
    if (ZG_UNLIKELY(stack & ZG_STACK_FENCE)) {
        stack &= ~ZG_STACK_FENCE;
        void *fenced = allocate_fenced(thread, stack, size, alignment, kind, zero, false);
        if (fenced) return fenced;
    }
    if (ZG_UNLIKELY(!magazine->count)) {
        void *fenced = zg_config.fence_per_context ? allocate_fenced(thread, stack, size, alignment, kind, zero, true) : NULL;
        if (fenced) return fenced;
        if (!refill(thread, class)) return NULL;
    }
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t index = magazine->slots[--magazine->count];
    struct zg_block *block = &slab->blocks[index];
    char *start = (char *)zg_slab_slot_address(slab, index);
    // The next one is likely cold, record and contents.
    uint32_t next = magazine->slots[magazine->count - (magazine->count != 0)];
    __builtin_prefetch(&slab->blocks[next], 1);
    __builtin_prefetch((void *)zg_slab_slot_address(slab, next), 1);
    bool is_zero = zero && zg_header_state(block->header) == zg_state_fresh;
    note_maker(block, stack, thread);
    __atomic_store_n(&block->header, zg_block_header(zg_state_live, kind, slab->slot_bytes - (uint32_t)size),
                     __ATOMIC_RELEASE);
    if (zero) {
        if (!is_zero) __builtin_memset(start, 0, size);
    } else if (ZG_UNLIKELY(zg_config.fill_new)) {
        zg_fill(start, slab->slot_bytes, ZG_FILL_NEW);
    }
    thread->allocations++;
    thread->allocated_bytes += slab->slot_bytes;
    return start;
}

static ZG_NOINLINE void *allocate_span(struct zg_thread *thread, uint64_t size, uint64_t alignment, enum zg_kind kind,
                                       bool zero) {
    uint32_t stack = zg_thread_capture(thread, true);
    if (stack & ZG_STACK_FENCE) {
        stack &= ~ZG_STACK_FENCE;
        void *fenced = allocate_fenced(thread, stack, size, alignment, kind, zero, false);
        if (fenced) return fenced;
    }
    bool is_zero;
    struct zg_span *span = zg_span_allocate(size, alignment, &is_zero);
    if (!span && zg_quarantine_trim(thread, 0)) span = zg_span_allocate(size, alignment, &is_zero);
    if (!span) return NULL;
    note_maker(&span->block, stack, thread);
    __atomic_store_n(&span->block.header, zg_block_header(zg_state_live, kind, 0), __ATOMIC_RELEASE);
    if (zero) {
        if (!is_zero) __builtin_memset((void *)span->start, 0, size);
    } else if (zg_config.fill_new) {
        __builtin_memset((void *)span->start, ZG_FILL_NEW, size);
    }
    thread->allocations++;
    thread->allocated_bytes += size;
    zg_thread_flush_counters(thread);
    zg_maintenance_look(thread);
    return (void *)span->start;
}

// The smallest class whose every slot has this alignment; ZG_CLASS_COUNT where there is none.
static uint32_t aligned_class(uint64_t size, uint64_t alignment) {
    if (size > ZG_LARGEST_SLOT || alignment > ZG_PAGE_BYTES) return ZG_CLASS_COUNT;
    uint32_t class = zg_size_class(size);
    while (class < ZG_CLASS_COUNT && zg_class_bytes(class) & (alignment - 1)) class++;
    return class;
}

static ZG_NOINLINE void *allocate(struct zg_thread *thread, uint64_t size, uint64_t alignment, enum zg_kind kind, bool zero) {
    if (zg_config.fence_per_context == ZG_FENCE_ALL || zg_passing == zg_passing_sample) {
        uint32_t stack = zg_thread_capture(thread, true) & ~ZG_STACK_FENCE;
        void *block = allocate_fenced(thread, stack, size, alignment, kind, zero, false);
        if (block || zg_passing == zg_passing_sample) return block;
    }
    if (ZG_LIKELY(alignment <= 16 && size <= ZG_LARGEST_SLOT))
        return allocate_slot(thread, zg_size_class(size), size, alignment, kind, zero);
    uint32_t class = aligned_class(size, alignment);
    if (class < ZG_CLASS_COUNT) return allocate_slot(thread, class, size, alignment, kind, zero);
    return allocate_span(thread, size, alignment, kind, zero);
}

static ZG_COLD void *allocate_elsewhere(uint64_t size, uint64_t alignment, bool zero) {
    void *block = zg_foreign_allocate(size, alignment, zero);
    if (!block) errno = ENOMEM;
    return block;
}

// More than any machine has: not worth giving up what the dead blocks hold.
#define HOPELESS ((uint64_t)1 << 40)

// The heap is exhausted: libc serves. Where it cannot either, nothing is held back any more and both are asked again.
static ZG_COLD void *allocate_exhausted(uint64_t size, uint64_t alignment, enum zg_kind kind, bool zero,
                                        const uint64_t *frame) {
    zg_stats_degrade(zg_degradation_heap_exhausted);
    void *block = zg_foreign_allocate(size, alignment, zero);
    struct zg_thread *thread = block || size >= HOPELESS ? NULL : zg_thread_enter(frame);
    if (thread) {
        zg_pressure_note_failure();
        zg_heap_relieve(thread);
        block = allocate(thread, size, alignment, kind, zero);
        zg_thread_leave(thread);
        if (!block) block = zg_foreign_allocate(size, alignment, zero);
    }
    if (!block) errno = ENOMEM;
    return block;
}

static ZG_NOINLINE void *allocate_odd(uint64_t size, uint64_t alignment, enum zg_kind kind, bool zero,
                                      const uint64_t *frame) {
    if (ZG_UNLIKELY(size > PTRDIFF_MAX)) {
        errno = ENOMEM;
        return NULL;
    }
    struct zg_thread *thread = zg_thread_enter(frame);
    if (ZG_UNLIKELY(!thread)) return allocate_elsewhere(size, alignment, zero);
    void *block = allocate(thread, size, alignment, kind, zero);
    zg_thread_leave(thread);
    if (ZG_UNLIKELY(!block && zg_passing == zg_passing_sample)) return allocate_elsewhere(size, alignment, zero);
    if (ZG_UNLIKELY(!block)) return allocate_exhausted(size, alignment, kind, zero, frame);
    return block;
}

void *zg_heap_allocate(uint64_t size, uint64_t alignment, enum zg_kind kind, bool zero, const uint64_t *frame) {
    if (ZG_UNLIKELY(size > ZG_LARGEST_SLOT || alignment > 16 || zg_config.fence_per_context == ZG_FENCE_ALL || zg_passing == zg_passing_sample))
        return allocate_odd(size, alignment, kind, zero, frame);
    struct zg_thread *thread = zg_thread_enter(frame);
    if (ZG_UNLIKELY(!thread)) return allocate_elsewhere(size, alignment, zero);
    void *block = allocate_slot(thread, zg_size_class(size), size, 16, kind, zero);
    zg_thread_leave(thread);
    if (ZG_UNLIKELY(!block)) return allocate_exhausted(size, alignment, kind, zero, frame);
    return block;
}

// A free of something that is not a live block: report what it is.
static ZG_COLD void free_dead(uint64_t address, enum zg_deallocator deallocator) {
    struct zg_block_view view;
    const char *name = zg_mismatch_deallocator_name(deallocator);
    if (!zg_lookup_block(address, &view)) {
        zg_found_invalid_free(address, "never allocated", name);
        return;
    }
    if (view.offset != 0) {
        zg_found_invalid_free(address, "interior pointer", name);
        return;
    }
    // The winner of a race may still be filling: its stacks are complete when it is done.
    for (int i = 0; view.state == zg_state_freeing && i < 10000; i++) {
        zg_os_yield();
        zg_lookup_block(address, &view);
    }
    zg_found_double_free(&view, address, name);
}

// Foreign blocks go to whoever made them; what nobody made is a finding.
static ZG_COLD void free_foreign(uint64_t address, enum zg_deallocator deallocator) {
    int saved = errno;
    enum zg_foreign_owner owner = zg_foreign_owner(address);
    if (owner == zg_foreign_nobody)
        zg_found_invalid_free(address, zg_foreign_describe(address), zg_mismatch_deallocator_name(deallocator));
    else zg_foreign_free((void *)address, owner);
    errno = saved;
}

ZG_INLINE bool is_mismatch(enum zg_kind kind, enum zg_deallocator deallocator, uint64_t requested, uint64_t size) {
    return !(accepted_kinds[deallocator] >> kind & 1) || (size != ZG_ANY_SIZE && size != requested);
}

static ZG_COLD void check_mismatch(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator,
                                   uint64_t size) {
    struct zg_block_view view;
    if (!zg_lookup_block(address, &view)) return;
    zg_mismatch_check(&view, address, deallocator, size, thread->frame[1]);
}

// realloc captures for its new block and for the old one from one place: what the cache keeps has to serve both.
ZG_INLINE uint32_t capture_free(struct zg_thread *thread, enum zg_deallocator deallocator) {
    return zg_thread_capture(thread, deallocator == zg_deallocator_moved) & ~ZG_STACK_FENCE;
}

static uint32_t zombie_bits(struct zg_dead dead) {
    return !dead.class_number ? 0 : dead.language == zg_language_swift ? ZG_HEADER_SWIFT : ZG_HEADER_CXX;
}

// A fenced block dies: what it was is noted, then its pages are protected.
static void retire_fenced(struct zg_thread *thread, struct zg_span *span, enum zg_kind kind) {
    struct zg_dead dead = {0, zg_language_unknown};
    uint64_t ticks = zg_arch_ticks();
    struct zg_change change;
    // In blocks of whole pages the program may map, protect or advise as it likes: not looked at, and replaced by a mapping.
    if (ALIGNED_KINDS >> kind & 1 && span->size >= RETIRE_LEAST_ALIGNED && span->start % ZG_PAGE_BYTES == 0) {
        zg_fence_retire(span, zg_fence_unmap);
        zg_budget_fence_spent(ticks, span->units);
        return;
    }
    // All that is looked at: the program may have protected it.
    thread->filling_start = span->base;
    thread->filling_end = span->base + (span->units - 1) * ZG_PAGE_BYTES;
    if (span->size >= 8 && zg_classes_on) dead = zg_class_of_dead((const uint64_t *)span->start, kind, span->size);
    bool is_overrun = zg_fence_is_overrun(span, &change);
    thread->filling_end = 0;
    span->death = zg_zombie_death(dead.class_number);
    __atomic_fetch_or(&span->block.header, zombie_bits(dead), __ATOMIC_RELAXED);
    thread->zombies += dead.class_number != 0;
    if (ZG_UNLIKELY(is_overrun)) zg_found_overrun(span->start, &change);
    zg_fence_retire(span, zg_config.on_finding == zg_on_finding_continue ? zg_fence_keep : zg_fence_drop);
    zg_budget_fence_spent(ticks, span->units);
}

static ZG_NOINLINE void free_span(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator,
                                  uint64_t size) {
    struct zg_span *span = zg_span_find(address);
    if (!span || span->start != address) return free_dead(address, deallocator);
    uint32_t header = __atomic_load_n(&span->block.header, __ATOMIC_ACQUIRE);
    if (zg_header_state(header) != zg_state_live) return free_dead(address, deallocator);
    if (is_mismatch(zg_header_kind(header), deallocator, span->size, size))
        check_mismatch(thread, address, deallocator, size);
    uint32_t freeing = zg_block_header(zg_state_freeing, zg_header_kind(header), 0);
    if (!__atomic_compare_exchange_n(&span->block.header, &header, freeing, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return free_dead(address, deallocator);
    note_freer(&span->block, capture_free(thread, deallocator), thread);
    thread->frees++;
    thread->freed_bytes += span->size;
    zg_thread_flush_counters(thread);
    if (span->fenced) return retire_fenced(thread, span, zg_header_kind(header));
    bool aligned = ALIGNED_KINDS >> zg_header_kind(header) & 1;
    if (span->size >= (aligned ? RETIRE_LEAST_ALIGNED : RETIRE_LEAST)) return zg_span_retire(span);
    uint64_t filled = zg_min(zg_round_up(span->size, 16), zg_config.fill_freed_bytes & ~UINT64_C(15));
    struct zg_dead dead = {0, zg_language_unknown};
    thread->filling_start = address;
    thread->filling_end = address + filled;
    if (filled && zg_classes_on) dead = zg_class_of_dead((const uint64_t *)address, zg_header_kind(header), span->size);
    uint32_t zombie = zombie_bits(dead);
    if (zombie) {
        span->death = zg_zombie_death(dead.class_number);
        zg_zombie_write((void *)address, filled, zg_zombie_span_pattern(zombie, zg_span_number(span)));
        thread->zombies++;
    } else if (filled) {
        zg_fill((void *)address, filled, ZG_FILL_FREED);
    }
    thread->filling_end = 0;
    __atomic_store_n(&span->block.header, zg_block_header(zg_state_quarantined, zg_header_kind(header), 0) | zombie,
                     __ATOMIC_RELEASE);
    zg_quarantine_add_span(thread, span);
    zg_maintenance_look(thread);
}

static ZG_NOINLINE void flush(struct zg_thread *thread) {
    zg_thread_flush_counters(thread);
    zg_quarantine_flush(thread);
    look_around(thread);
}

// What a dead object is made of from now on. Returns its header bits, 0 where the common fill has to do.
static uint32_t make_zombie(struct zg_thread *thread, struct zg_slab *slab, uint64_t index, uint64_t address,
                            uint64_t filled, struct zg_dead dead) {
    if (ZG_UNLIKELY(zg_zombie_contents))
        __builtin_memcpy((void *)(zg_zombie_contents + (address - zg_slabs.base)), (void *)address, slab->slot_bytes);
    // Reading the clock costs as much as all the rest: once in a while has to do.
    if (!(thread->zombies++ & 7)) thread->time = (uint32_t)(zg_arch_ticks() >> ZG_TIME_SHIFT);
    slab->deaths[index] = (struct zg_death){dead.class_number, thread->time};
    return zg_zombie_make(slab, index, address, filled, dead.language);
}

// live to freeing: one of several threads wins. A process with one thread has nobody to race with (a signal handler's
// frees wait), and the locked instruction is a good part of what a free costs.
ZG_INLINE bool claim(struct zg_block *block, uint32_t header, uint32_t freeing) {
    if (ZG_LIKELY(__libc_single_threaded)) {
        __atomic_store_n(&block->header, freeing, __ATOMIC_RELAXED);
        return true;
    }
    return __atomic_compare_exchange_n(&block->header, &header, freeing, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

ZG_INLINE void free_in_line(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator, uint64_t size) {
    if (ZG_UNLIKELY(!zg_slab_contains(address))) {
        if (zg_span_contains(address)) free_span(thread, address, deallocator, size);
        else free_foreign(address, deallocator);
        return;
    }
    uint64_t index, interior;
    struct zg_slab *slab = zg_slab_find(address, &index, &interior);
    if (ZG_UNLIKELY(interior || index >= __atomic_load_n(&slab->used, __ATOMIC_RELAXED)))
        return free_dead(address, deallocator);
    struct zg_block *block = &slab->blocks[index];
    // The record was last touched when the block was made, the contents perhaps too: they come while the stack is captured.
    __builtin_prefetch(block, 1);
    __builtin_prefetch((void *)address, 1);
    uint32_t stack = capture_free(thread, deallocator);
    uint32_t header = __atomic_load_n(&block->header, __ATOMIC_ACQUIRE);
    if (ZG_UNLIKELY(zg_header_state(header) != zg_state_live)) return free_dead(address, deallocator);
    if (ZG_UNLIKELY(is_mismatch(zg_header_kind(header), deallocator, zg_slab_requested(slab, header), size)))
        check_mismatch(thread, address, deallocator, size);
    uint32_t kind_and_slack = header & ~UINT32_C(0xff);
    if (ZG_UNLIKELY(!claim(block, header, kind_and_slack | zg_state_freeing))) return free_dead(address, deallocator);
    note_freer(block, stack, thread);
    uint64_t filled = zg_min(slab->slot_bytes, zg_config.fill_freed_bytes & ~UINT64_C(15));
    thread->filling_start = address;
    thread->filling_end = address + filled;
    if (ZG_LIKELY(filled)) {
        struct zg_dead dead =
            zg_class_of_dead((const uint64_t *)address, zg_header_kind(header), zg_slab_requested(slab, header));
        uint32_t zombie = dead.class_number ? make_zombie(thread, slab, index, address, filled, dead) : 0;
        kind_and_slack |= zombie;
        if (!zombie) zg_fill((void *)address, filled, ZG_FILL_FREED);
    }
    thread->filling_end = 0;
    __atomic_store_n(&block->header, kind_and_slack | zg_state_quarantined, __ATOMIC_RELEASE);
    thread->frees++;
    thread->freed_bytes += slab->slot_bytes;
    uint32_t at = thread->pending_count++;
    thread->pending[at] = zg_slot_make((uint32_t)(slab - zg_slabs.slab), (uint32_t)index);
    thread->pending_contexts[at] = block->alloc_stack;
    if (ZG_UNLIKELY(at + 1 == ZG_PENDING_BLOCKS)) flush(thread);
}

static ZG_NOINLINE void free_entered(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator, uint64_t size) {
    free_in_line(thread, address, deallocator, size);
}

// The runtime is not to be entered: not ready, or interrupted by a signal handler that frees.
static ZG_COLD void free_elsewhere(void *address) {
    int saved = errno;
    struct zg_thread *thread = zg_thread_current_or_null();
    if (!zg_lookup_is_ours((uint64_t)address)) zg_foreign_free(address, zg_foreign_libc);
    else if (thread && __atomic_load_n(&thread->deferred_count, __ATOMIC_RELAXED) < ZG_DEFERRED_FREES - 1) {
        // Reserved first: a handler may interrupt this one.
        uint32_t at = __atomic_fetch_add(&thread->deferred_count, 1, __ATOMIC_RELAXED);
        thread->deferred[at] = address;
    }
    // Otherwise the block is leaked: as many nested frees during one call into the runtime.
    errno = saved;
}

void zg_heap_free(void *address, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame) {
    if (!address) return;
    struct zg_thread *thread = zg_thread_enter(frame);
    if (ZG_UNLIKELY(!thread)) return free_elsewhere(address);
    free_in_line(thread, (uint64_t)address, deallocator, size);
    zg_thread_leave(thread);
}

void zg_heap_free_deferred(struct zg_thread *thread, void *address) {
    free_entered(thread, (uint64_t)address, zg_deallocator_free, ZG_ANY_SIZE);
}

// Resizes in place where the block's slot or span fits the new size without wasting more than half of it.
static bool resize_in_place(const struct zg_block_view *view, uint64_t size) {
    if (zg_slab_contains(view->start)) {
        if (size > ZG_LARGEST_SLOT) return false;
        uint64_t index, interior;
        struct zg_slab *slab = zg_slab_find(view->start, &index, &interior);
        if (size > slab->slot_bytes || size <= slab->slot_bytes / 2) return false;
        __atomic_store_n(&view->block->header,
                         zg_block_header(zg_state_live, view->kind, slab->slot_bytes - (uint32_t)size), __ATOMIC_RELEASE);
        return true;
    }
    struct zg_span *span = zg_span_find(view->start);
    uint64_t capacity = zg_span_capacity(span);
    if (span->fenced) return size == view->size;
    if (size > capacity || size <= ZG_LARGEST_SLOT || size < capacity / 2) return false;
    zg_store(&span->size, size);
    return true;
}

static void *reallocate(struct zg_thread *thread, uint64_t address, uint64_t size) {
    struct zg_block_view view;
    if (!zg_lookup_block(address, &view) || view.offset != 0 || view.state != zg_state_live) {
        free_dead(address, zg_deallocator_realloc);
        return allocate(thread, size, 16, zg_kind_malloc, false); // on_finding=continue: a block to go on with
    }
    if (is_mismatch(view.kind, zg_deallocator_realloc, view.size, ZG_ANY_SIZE))
        check_mismatch(thread, address, zg_deallocator_realloc, ZG_ANY_SIZE);
    if (resize_in_place(&view, size)) {
        int64_t by = zg_slab_contains(address) ? 0 : (int64_t)(size - view.size);
        if (by > 0) thread->allocated_bytes += (uint64_t)by;
        else thread->freed_bytes += (uint64_t)-by;
        return (void *)address;
    }
    void *block = allocate(thread, size, 16, zg_kind_malloc, false);
    if (!block) return NULL;
    struct zg_span *from = zg_span_find(address), *to = zg_span_find((uint64_t)block);
    bool may_move = from && to && view.size >= RETIRE_LEAST;
    enum zg_span_moved moved = may_move ? zg_span_move(from, to) : zg_span_unmoved;
    if (ZG_UNLIKELY(moved == zg_span_lost)) {
        // The old block stays as it is. The new one is dead and never used again.
        __atomic_store_n(&to->block.header, zg_header_in_state(to->block.header, zg_state_retired), __ATOMIC_RELEASE);
        thread->frees++;
        thread->freed_bytes += to->size;
        return NULL;
    }
    if (moved == zg_span_unmoved)
        __builtin_memcpy(block, (void *)address, zg_min(view.size, size));
    free_entered(thread, address, zg_deallocator_moved, ZG_ANY_SIZE);
    return block;
}

void *zg_heap_reallocate(void *address, uint64_t size, const uint64_t *frame) {
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    bool ours = zg_lookup_is_ours((uint64_t)address);
    struct zg_thread *thread = zg_thread_enter(frame);
    void *block = NULL;
    if (!ours) {
        enum zg_foreign_owner owner = zg_runtime_is_ready() ? zg_foreign_owner((uint64_t)address) : zg_foreign_libc;
        if (thread && owner == zg_foreign_nobody)
            zg_found_invalid_free((uint64_t)address, zg_foreign_describe((uint64_t)address), "realloc");
        if (thread) zg_thread_leave(thread);
        if (owner == zg_foreign_nobody) return NULL;
        block = zg_foreign_reallocate(address, size, owner);
        // libc's own block, which stays as it is where it cannot grow.
        if (ZG_UNLIKELY(!block && size && size < HOPELESS) && (thread = zg_thread_enter(frame)) != NULL) {
            zg_pressure_note_failure();
            zg_heap_relieve(thread);
            zg_thread_leave(thread);
            block = zg_foreign_reallocate(address, size, owner);
        }
        return block;
    }
    if (thread) {
        block = reallocate(thread, (uint64_t)address, size);
        zg_thread_leave(thread);
        if (block) return block;
    }
    // Nested in the runtime, or the heap is exhausted: another block takes the contents.
    struct zg_block_view view;
    if (!zg_lookup_block((uint64_t)address, &view)) return NULL;
    block = thread ? allocate_exhausted(size, 16, zg_kind_malloc, false, frame) : allocate_elsewhere(size, 16, false);
    if (!block) return NULL;
    __builtin_memcpy(block, address, zg_min(view.size, size));
    zg_heap_free(address, zg_deallocator_realloc, ZG_ANY_SIZE, frame);
    return block;
}

uint64_t zg_heap_usable_size(void *address) {
    if (!address) return 0;
    struct zg_block_view view;
    if (zg_lookup_block((uint64_t)address, &view)) return view.size;
    return zg_foreign_usable_size(address, zg_foreign_owner((uint64_t)address));
}

static uint64_t trim(struct zg_thread *thread, bool quarantine) {
    uint64_t bytes = zg_retire_all(thread, quarantine);
    bytes += zg_span_trim();
    zg_stats_add(zg_counter_relieved_bytes, bytes);
    zg_stats_add(zg_counter_trims, 1);
    return bytes;
}

uint64_t zg_heap_trim(bool quarantine, const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return 0;
    uint64_t bytes = trim(thread, quarantine);
    zg_thread_leave(thread);
    return bytes;
}

uint64_t zg_heap_relieve(struct zg_thread *thread) { return trim(thread, true); }

static uint32_t answering;

void zg_heap_after_fork_in_child(void) { answering = 0; }

void zg_heap_answer_requests(struct zg_thread *thread) {
    uint32_t request = __atomic_load_n(&zg_stats->request, __ATOMIC_ACQUIRE);
    uint32_t answered = __atomic_load_n(&zg_stats->answer, __ATOMIC_RELAXED);
    if (ZG_LIKELY(request == answered)) return;
    if (__atomic_exchange_n(&answering, 1, __ATOMIC_ACQUIRE)) return; // another thread does it
    uint64_t value = zg_stats->request_kind == zg_request_trim ? trim(thread, true) : 0;
    zg_stats->answer_value = value;
    __atomic_store_n(&zg_stats->answer, request, __ATOMIC_RELEASE);
    zg_os_futex_wake(&zg_stats->answer, INT32_MAX, false);
    __atomic_store_n(&answering, 0, __ATOMIC_RELEASE);
}
