// Frees blocks. In order: find the block from the address by arithmetic, move it from live to freeing by
// compare-and-swap (the loser of a race is a double free), record stack and thread, fill, and pass the block to the
// quarantine. A small block first waits in the thread's list of pending blocks.
// Hot path. Takes no lock itself; the quarantine does. The calling thread is in the runtime.

#include "heap/free.h"

#include <errno.h>

#include "blocks/alias.h"
#include "blocks/fill.h"
#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "blocks/span.h"
#include "blocks/tags.h"
#include "findings/found.h"
#include "heap/foreign.h"
#include "heap/quarantine.h"
#include "heap/watchpoints.h"
#include "pages/isolation.h"
#include "pages/locked.h"
#include "pages/page_time.h"
#include "pages/retire.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "settings/config.h"
#include "threads/capture.h"
#include "threads/single.h"
#include "zombies/zombie.h"

// The stores are atomic, because other threads may read the record at the same time (lookup.h).
ZG_INLINE void record_free(struct zg_block *block, uint32_t stack, const struct zg_thread *thread) {
    __atomic_store_n(&block->free_stack, stack, __ATOMIC_RELAXED);
    __atomic_store_n(&block->free_thread, thread->number_in_records, __ATOMIC_RELAXED);
}

// Reports the free of an address that is not the start of a live block. If the address is off by a C++ array cookie,
// frees the block, too.
ZG_COLD void zg_free_report_bad(uint64_t pointer, enum zg_deallocator deallocator) {
    struct zg_block_view view;
    uint64_t address = zg_arch_address(pointer);
    const char *name = zg_mismatch_deallocator_name(deallocator);
    uint64_t start;
    if (!zg_tags_is_stale(pointer) && zg_mismatch_is_cookie(address, deallocator, &start)) {
        // Free the block that the program meant.
        struct zg_thread *thread = zg_thread_current_or_null();
        if (thread) zg_free_entered(thread, start, zg_deallocator_realloc_old, ZG_ANY_SIZE);
        return;
    }
    if (!zg_lookup_block(pointer, &view)) {
        zg_found_invalid_free(NULL, address, zg_retire_is_forgotten(pointer) ? ZG_FREE_MEMORY : "never allocated",
                              name);
        return;
    }
    if (view.offset != 0) {
        zg_found_invalid_free(&view, address, "interior pointer", name);
        return;
    }
    // The thread that won the race may still be filling the block. After the wait, the block's stacks are complete.
    for (int i = 0; view.state == zg_state_freeing && i < 10000; i++) {
        zg_os_yield();
        zg_lookup_block(pointer, &view);
    }
    zg_found_double_free(&view, address, name);
}

// Records the freeing thread and stack in the block, and notes the pair of stacks (stacks/pairs.h).
ZG_INLINE void record_free_and_pair(struct zg_thread *thread, struct zg_block *block, uint32_t stack) {
    record_free(block, stack, thread);
    zg_pair_note(&thread->pairs, block->alloc_stack, stack);
}

// Hands a foreign block to its allocator, or reports an address that no allocator returned.
static ZG_COLD void free_foreign(uint64_t address, enum zg_deallocator deallocator) {
    int saved = errno;
    enum zg_foreign_owner owner = zg_foreign_owner(address);
    if (owner == zg_foreign_none)
        zg_found_invalid_free(NULL, address, zg_foreign_describe(address), zg_mismatch_deallocator_name(deallocator));
    else zg_foreign_free((void *)address, owner);
    errno = saved;
}

ZG_COLD void zg_free_check_mismatch(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator,
                                    uint64_t size) {
    struct zg_block_view view;
    if (!zg_lookup_block(address, &view)) return;
    zg_mismatch_check(&view, address, deallocator, size, thread->frame[1]);
}

// Captures the stack of a free. free_slot explains why the free in realloc captures it as for an allocation.
ZG_INLINE uint32_t capture_free(struct zg_thread *thread, enum zg_deallocator deallocator) {
    return zg_capture(thread, deallocator == zg_deallocator_realloc_old) & ~ZG_STACK_ISOLATE;
}

// Fills the pages that have memory. Pages that the program never touched stay without memory. If there are such pages,
// returns false and makes all pages accessible: the program may have protected a page, which is noticed only when the
// page is filled.
static ZG_NOINLINE bool fill_touched(uint64_t start, uint64_t bytes) {
    unsigned char present[ZG_RETIRE_LEAST / ZG_PAGE_BYTES];
    uint64_t count = zg_round_up(bytes, ZG_PAGE_BYTES) / ZG_PAGE_BYTES;
    bool all = true;
    if (start % ZG_PAGE_BYTES || count > sizeof present ||
        zg_os_find_present((void *)start, count * ZG_PAGE_BYTES, present) != 0) {
        zg_fill((void *)start, bytes, ZG_FILL_FREED);
        return true;
    }
    for (uint64_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && (present[end] & 1) == (present[i] & 1);) end++;
        uint64_t from = i * ZG_PAGE_BYTES, to = zg_min(end * ZG_PAGE_BYTES, bytes);
        if (present[i] & 1) zg_fill((void *)(start + from), to - from, ZG_FILL_FREED);
        else all = false;
    }
    if (!all) zg_os_commit((void *)start, count * ZG_PAGE_BYTES);
    return all;
}

// Retires a large block: its pages become inaccessible at once.
static void free_whole_span(struct zg_thread *thread, struct zg_span *span, bool is_movable) {
    uint64_t pair = zg_pair(span->block.alloc_stack, span->block.free_stack);
    if (zg_span_retire(span, is_movable)) zg_thread_note_guarded(thread, pair);
}

static ZG_NOINLINE void free_span(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator,
                                  uint64_t size) {
    struct zg_span *span = zg_span_find(address);
    if (!span || span->start != address) return zg_free_report_bad(address, deallocator);
    uint32_t header = __atomic_load_n(&span->block.header, __ATOMIC_ACQUIRE);
    if (zg_header_state(header) != zg_state_live) return zg_free_report_bad(address, deallocator);
    if (zg_mismatch_is_possible(zg_header_family(header), deallocator, span->size, size))
        zg_free_check_mismatch(thread, address, deallocator, size);
    uint32_t freeing = zg_block_header(zg_state_freeing, zg_header_family(header), 0);
    // If the compare-and-swap fails, another thread may only have set ZG_HEADER_CHANGED; the block is then still live.
    while (
        !__atomic_compare_exchange_n(&span->block.header, &header, freeing, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        if (zg_header_state(header) != zg_state_live) return zg_free_report_bad(address, deallocator);
    record_free_and_pair(thread, &span->block, capture_free(thread, deallocator));
    thread->frees++;
    thread->freed_bytes += span->size;
    if (!span->protection) zg_thread_flush_counters(thread);
    if (ZG_UNLIKELY(zg_locked_any())) {
        uint64_t bytes = span->protection ? (span->units - 1) * ZG_PAGE_BYTES : span->units * ZG_UNIT_BYTES;
        zg_locked_died(span->base, span->base + bytes);
    }
    if (span->protection) return zg_isolation_end_private(thread, span, header);
    bool aligned = zg_family_is_aligned(zg_header_family(header));
    if (span->size >= (aligned ? ZG_PROGRAM_PAGES_LEAST : ZG_RETIRE_LEAST))
        return free_whole_span(thread, span, !aligned);
    uint64_t filled = zg_fill_bytes(span->size);
    struct zg_freed_class dead = {0, zg_language_unknown};
    zg_thread_begin_access(thread, address, address + filled);
    if (filled && zg_classes_on)
        dead = zg_class_of_freed((const uint64_t *)address, zg_header_family(header), span->size);
    uint32_t zombie = zg_zombie_header_bits(dead), sparse = 0;
    if (zombie) {
        span->death = zg_zombie_death(dead.class_number);
        zg_zombie_write((void *)address, filled, zg_zombie_span_pattern(zombie, zg_span_number(span)));
        thread->zombies++;
    } else if (header & ZG_HEADER_SPARSE) {
        sparse = fill_touched(address, filled) ? 0 : ZG_HEADER_SPARSE;
    } else if (filled) {
        zg_fill((void *)address, filled, ZG_FILL_FREED);
    }
    // The program may have protected pages that were not filled.
    if (ZG_UNLIKELY(filled < span->size)) zg_os_commit((void *)span->base, span->units * ZG_UNIT_BYTES);
    zg_thread_end_access(thread);
    uint32_t bits = zg_block_header(zg_state_quarantined, zg_header_family(header), 0) | zombie | sparse;
    __atomic_store_n(&span->block.header, bits, __ATOMIC_RELEASE);
    zg_quarantine_add_span(thread, span);
    zg_thread_request_deferred(thread, zg_deferred_maintenance);
}

static ZG_NOINLINE void free_alias(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator,
                                   uint64_t size) {
    struct zg_alias *alias = zg_alias_find(address);
    if (!alias || zg_alias_start(alias) != address) return zg_free_report_bad(address, deallocator);
    uint32_t header = __atomic_load_n(&alias->block.header, __ATOMIC_ACQUIRE);
    if (zg_header_state(header) != zg_state_live) return zg_free_report_bad(address, deallocator);
    uint64_t bytes = zg_alias_size(alias);
    if (zg_mismatch_is_possible(zg_header_family(header), deallocator, bytes, size))
        zg_free_check_mismatch(thread, address, deallocator, size);
    // If the compare-and-swap fails, another thread may only have set ZG_HEADER_CHANGED.
    while (!__atomic_compare_exchange_n(&alias->block.header, &header,
                                        zg_header_in_state(header & ~ZG_HEADER_CHANGED, zg_state_freeing), false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        if (zg_header_state(header) != zg_state_live) return zg_free_report_bad(address, deallocator);
    uint64_t ticks = zg_page_time_start();
    record_free_and_pair(thread, &alias->block, capture_free(thread, deallocator));
    thread->frees++;
    thread->freed_bytes += bytes;
    if (ZG_UNLIKELY(zg_locked_any())) zg_locked_died(zg_alias_page(alias), zg_alias_page(alias) + ZG_PAGE_BYTES);
    zg_isolation_end_in_window(thread, alias, header, ticks);
}

ZG_NOINLINE void zg_free_flush_pending(struct zg_thread *thread) {
    zg_thread_flush_many_counters(thread);
    zg_quarantine_flush(thread);
    zg_thread_request_deferred(thread, zg_deferred_maintenance);
}

// Records the death of an object and writes its trap words. Returns its header bits, or 0 if it must get the plain
// fill.
static uint32_t make_zombie(struct zg_thread *thread, struct zg_slab *slab, uint64_t index, uint64_t address,
                            uint64_t filled, struct zg_freed_class dead) {
    if (ZG_UNLIKELY(zg_zombie_saved_contents))
        __builtin_memcpy((void *)(zg_zombie_saved_contents + (address - zg_slabs.base)), (void *)address,
                         slab->slot_bytes);
    // Reading the clock costs as much as all the rest, so do so for every eighth zombie only.
    if (!(thread->zombies++ & 7)) thread->time = (uint32_t)(zg_arch_ticks() >> ZG_TIME_SHIFT);
    slab->deaths[index] = (struct zg_death){dead.class_number, thread->time};
    return zg_zombie_make(slab, index, address, filled, dead.language);
}

// If a slot with untouched pages is freed again before this many KiB of such slots were freed, all its pages are filled
// and get memory. Finding out which pages have memory, here and at the eviction, takes four system calls each time.
#define RECYCLED_WITHIN_KIB ((uint32_t)4 << 10)
static bool is_recycled_soon(struct zg_death *death, uint64_t bytes) {
    static uint64_t freed; // approximate, because the update is not atomic
    zg_store(&freed, zg_load(&freed) + bytes);
    uint32_t now = (uint32_t)(zg_load(&freed) >> 10);
    if (death->class_number == ZG_DEATH_OF_SPARSE && now - death->time <= RECYCLED_WITHIN_KIB) return true;
    *death = (struct zg_death){ZG_DEATH_OF_SPARSE, now};
    return false;
}

// Fills the slot. Returns ZG_HEADER_SPARSE if pages without memory were skipped. Otherwise the death record notes that
// all pages have memory.
static ZG_NOINLINE uint32_t fill_slot(struct zg_slab *slab, uint64_t index, uint64_t address, uint64_t filled) {
    struct zg_death *death = &slab->deaths[index];
    if (death->class_number == ZG_DEATH_OF_WHOLE) {
        zg_fill((void *)address, filled, ZG_FILL_FREED);
        return 0;
    }
    if (is_recycled_soon(death, filled)) zg_fill((void *)address, filled, ZG_FILL_FREED);
    else if (!fill_touched(address, filled)) return ZG_HEADER_SPARSE;
    death->class_number = ZG_DEATH_OF_WHOLE;
    return 0;
}

// Moves the block from live to freeing; if several threads try, one succeeds. A process with one thread needs no locked
// instruction, which is a large part of the cost of a free: there are no races, because frees in signal handlers are
// deferred.
ZG_INLINE bool try_claim(struct zg_block *block, uint32_t header, uint32_t freeing) {
    if (ZG_LIKELY(zg_is_single_threaded())) {
        __atomic_store_n(&block->header, freeing, __ATOMIC_RELAXED);
        return true;
    }
    return __atomic_compare_exchange_n(&block->header, &header, freeing, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

// Finds the slot that begins at `address`, which lies in the slabs. Returns false if no slot begins there.
ZG_INLINE bool find_slot(uint64_t address, struct zg_pending_free *pending) {
    if (ZG_UNLIKELY(!zg_slab_find_start(address, &pending->slab, &pending->index))) return false;
    pending->block = &pending->slab->blocks[pending->index];
    // Prefetch the record and the contents during the capture of the stack: the record was last touched when the block
    // was made, and so perhaps were the contents.
    zg_arch_prefetch_for_write(pending->block);
    zg_arch_prefetch_for_write((void *)address);
    return true;
}

// Moves the block to freeing and records the freeing thread and stack. Afterwards the caller may change the block's
// contents. False if another thread was first.
ZG_INLINE bool begin_free(struct zg_thread *thread, uint64_t address, struct zg_pending_free *pending, uint32_t header,
                          uint32_t stack) {
    pending->header = zg_header_in_state(header, zg_state_freeing);
    if (ZG_UNLIKELY(!try_claim(pending->block, header, pending->header))) return false;
    record_free(pending->block, stack & ~ZG_STACK_ISOLATE, thread);
    zg_thread_begin_access(thread, address, address + pending->slab->filled);
    return true;
}

// Moves a filled block to quarantined. Returns true if the thread's list of pending blocks is full.
ZG_INLINE bool finish_free(struct zg_thread *thread, struct zg_pending_free pending) {
    zg_thread_end_access(thread);
    __atomic_store_n(&pending.block->header, zg_header_in_state(pending.header, zg_state_quarantined),
                     __ATOMIC_RELEASE);
    uint32_t at = thread->pending_count;
    thread->pending_contexts[at] = pending.block->alloc_stack;
    thread->pending[at] = zg_slab_slot(pending.slab, pending.index);
    thread->pending_count = at + 1;
    return at + 1 == ZG_PENDING_BLOCKS;
}

__attribute__((always_inline)) enum zg_free_result zg_free_quickly(struct zg_thread *thread, struct zg_free_call call,
                                                                   struct zg_pending_free *pending, bool is_tagged) {
    uint32_t stack = call.stack;
    uint64_t address = is_tagged ? zg_arch_address(call.pointer) : call.pointer;
    if (ZG_UNLIKELY(!zg_slab_contains(address) || !find_slot(address, pending))) return zg_free_declined;
    const struct zg_slab *slab = pending->slab;
    if (!stack) stack = zg_capture_cached(thread, call.frame);
    uint32_t header = __atomic_load_n(&pending->block->header, __ATOMIC_ACQUIRE);
    enum zg_alloc_family family = zg_header_family(header);
    if (ZG_UNLIKELY(zg_header_state(header) != zg_state_live ||
                    zg_mismatch_is_possible(family, call.deallocator, zg_slab_requested(slab, header), call.size)))
        return zg_free_declined;
    // This also rejects an unknown stack (0), because no cached pair contains it.
    if (ZG_UNLIKELY(!zg_pair_is_cached(&thread->pairs, pending->block->alloc_stack, stack & ~ZG_STACK_ISOLATE)))
        return zg_free_declined;
    if (is_tagged && !zg_tags_match(slab, pending->index, call.pointer, zg_slab_requested(slab, header)))
        return zg_free_declined;
    if (ZG_UNLIKELY(!begin_free(thread, address, pending, header, stack))) return zg_free_declined;
    if (is_tagged) {
        zg_tags_clear(slab, pending->index);
        thread->guarded++;
    }
    if (ZG_UNLIKELY(slab->filled - 1 >= ZG_FILL_SMALL || zg_class_may_be_freed((const uint64_t *)address, family)))
        return zg_free_claimed;
    zg_fill_small((void *)address, slab->filled, ZG_FILL_WORD);
    return finish_free(thread, *pending) ? zg_free_done_list_full : zg_free_done;
}

__attribute__((always_inline)) void zg_free_finish(struct zg_thread *thread, uint64_t address,
                                                   struct zg_pending_free pending) {
    struct zg_slab *slab = pending.slab;
    uint64_t filled = slab->filled;
    if (ZG_LIKELY(filled)) {
        struct zg_freed_class dead = zg_class_of_freed((const uint64_t *)address, zg_header_family(pending.header),
                                                       zg_slab_requested(slab, pending.header));
        uint32_t zombie = dead.class_number ? make_zombie(thread, slab, pending.index, address, filled, dead) : 0;
        pending.header |= zombie;
        if (!zombie) {
            if (ZG_LIKELY(filled <= ZG_FILL_SMALL)) zg_fill_small((void *)address, filled, ZG_FILL_WORD);
            else if (ZG_LIKELY(filled < ZG_SPARSE_LEAST)) __builtin_memset((void *)address, ZG_FILL_FREED, filled);
            else pending.header |= fill_slot(slab, pending.index, address, filled);
        }
    }
    if (ZG_UNLIKELY(finish_free(thread, pending))) zg_free_flush_pending(thread);
}

void zg_free_check_gap(const struct zg_slab *slab, uint64_t index, uint64_t size) {
    struct zg_change change = {.old = ZG_FILL_GAP};
    struct zg_block_view view;
    zg_tags_check_again();
    change.length = zg_tags_find_change(slab, index, size, &change.offset, &change.now);
    if (ZG_LIKELY(!change.length) || !zg_lookup_block(zg_slab_slot_address(slab, index), &view)) return;
    uint32_t header = __atomic_fetch_or(&view.block->header, ZG_HEADER_CHANGED, __ATOMIC_RELAXED);
    if (!(header & ZG_HEADER_CHANGED)) zg_found_overrun(&view, &change, "free");
}

// Returns true for the first thread that finds a change behind the block. Checks twice, because other threads may make,
// resize, and free blocks at the same time. A gap is filled before the block gets its tag or its new size.
static bool claim_change(const struct zg_slab *slab, uint64_t index, struct zg_change *change,
                         struct zg_block_view *view) {
    for (int looked = 0; looked < 2; looked++) {
        uint32_t header = __atomic_load_n(&slab->blocks[index].header, __ATOMIC_ACQUIRE);
        if (zg_header_state(header) != zg_state_live || header & ZG_HEADER_CHANGED || !zg_tags_are_given(slab, index))
            return false;
        change->length =
            zg_tags_find_change(slab, index, zg_slab_requested(slab, header), &change->offset, &change->now);
        if (ZG_LIKELY(!change->length)) return false;
        if (looked && (!zg_lookup_block(zg_slab_slot_address(slab, index), view) ||
                       !__atomic_compare_exchange_n(&slab->blocks[index].header, &header, header | ZG_HEADER_CHANGED,
                                                    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)))
            return false;
    }
    return true;
}

uint64_t zg_free_verify_live(const char *found_by) {
    uint64_t found = 0;
    if (!zg_tags_are_on()) return 0;
    bool was_checked = zg_arch_check_tags(false);
    zg_retire_lock(); // keeps pages of blocks that are freed meanwhile accessible
    for (const struct zg_slab *slab = zg_slabs.slab; slab < zg_slabs.slab + ZG_CLASS_COUNT; slab++) {
        uint64_t used = __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE);
        for (uint64_t i = 0; i < used; i++) {
            struct zg_change change = {.old = ZG_FILL_GAP};
            struct zg_block_view view;
            if (!claim_change(slab, i, &change, &view)) continue;
            zg_found_overrun(&view, &change, found_by);
            found++;
        }
    }
    zg_retire_unlock(false);
    if (was_checked) zg_arch_check_tags(true);
    return found;
}

// Notes the pair of a free that did not take the quick path (stacks/pairs.h). Returns true if the block should be
// watched.
static bool note_pair(struct zg_thread *thread, uint32_t alloc_stack, uint32_t free_stack) {
    if (zg_pair_is_cached(&thread->pairs, alloc_stack, free_stack)) return false;
    bool is_new = zg_pair_add(&thread->pairs, alloc_stack, free_stack);
    return free_stack && zg_watchpoints_want(thread, alloc_stack, free_stack, is_new);
}

// Watches the newest pending block. The block that was watched before takes its place in the list. A free is counted
// when its block leaves the list, so the former block's free is uncounted until the block leaves the list again.
static ZG_NOINLINE void watch_last(struct zg_thread *thread) {
    zg_slot slot = thread->pending[thread->pending_count - 1], former;
    if (!zg_watchpoints_move(slot, &former)) return;
    thread->pending_count--;
    thread->frees++;
    thread->freed_bytes += zg_slot_bytes(slot);
    if (!former) return;
    uint32_t at = thread->pending_count++;
    thread->pending[at] = former - 1;
    thread->pending_contexts[at] =
        zg_slabs.slab[zg_slot_class(former - 1)].blocks[zg_slot_index(former - 1)].alloc_stack;
    thread->frees--;
    thread->freed_bytes -= zg_slot_bytes(former - 1);
}

static void free_slot(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator, uint64_t size) {
    struct zg_pending_free pending;
    if (ZG_UNLIKELY(!find_slot(address, &pending))) return zg_free_report_bad(address, deallocator);
    // realloc captures the stack once for the allocation and the free, so the cached stack must be usable for an
    // allocation, too.
    uint32_t stack = zg_capture_uncached(thread, deallocator == zg_deallocator_realloc_old);
    uint32_t header = __atomic_load_n(&pending.block->header, __ATOMIC_ACQUIRE);
    if (ZG_UNLIKELY(zg_header_state(header) != zg_state_live)) return zg_free_report_bad(address, deallocator);
    if (ZG_UNLIKELY(zg_mismatch_is_possible(zg_header_family(header), deallocator,
                                            zg_slab_requested(pending.slab, header), size)))
        zg_free_check_mismatch(thread, address, deallocator, size);
    if (ZG_UNLIKELY(!begin_free(thread, address, &pending, header, stack)))
        return zg_free_report_bad(address, deallocator);
    bool is_watched = note_pair(thread, pending.block->alloc_stack, stack & ~ZG_STACK_ISOLATE);
    if (zg_tags_are_on()) {
        zg_thread_note_guarded(thread, zg_pair(pending.block->alloc_stack, stack & ~ZG_STACK_ISOLATE));
        zg_free_check_gap(pending.slab, pending.index, zg_slab_requested(pending.slab, header));
        zg_tags_clear(pending.slab, pending.index);
        pending.header &= ~ZG_HEADER_CHANGED; // a freed block uses the bit for a write after free
    }
    // Leave room for the block, so that it can be taken out of the list of pending blocks.
    if (ZG_UNLIKELY(is_watched) && thread->pending_count + 1 == ZG_PENDING_BLOCKS) zg_free_flush_pending(thread);
    zg_free_finish(thread, address, pending);
    if (ZG_UNLIKELY(is_watched)) watch_last(thread);
}

void zg_free_entered(struct zg_thread *thread, uint64_t pointer, enum zg_deallocator deallocator, uint64_t size) {
    uint64_t address = zg_arch_address(pointer);
    if (zg_tags_are_on() && zg_tags_is_stale(pointer)) return zg_free_report_bad(pointer, deallocator);
    if (ZG_LIKELY(zg_slab_contains(address))) free_slot(thread, address, deallocator, size);
    else if (zg_span_contains(address)) free_span(thread, address, deallocator, size);
    else if (zg_alias_contains(address)) free_alias(thread, address, deallocator, size);
    else free_foreign(address, deallocator);
}
