// Implements malloc, free, and the other allocation functions: enters the runtime, calls the heap, and leaves. Falls
// back to libc if the heap cannot serve.
// Hot path. Takes no lock itself.

#include "entry/entry.h"

#include <errno.h>

#include "blocks/lookup.h"
#include "blocks/tags.h"
#include "entry/witness.h"
#include "findings/found.h"
#include "heap/allocate.h"
#include "heap/foreign.h"
#include "heap/free.h"
#include "heap/reallocate.h"
#include "heap/relief.h"
#include "limits/allowance.h"
#include "limits/budget.h"
#include "platform/arch.h"
#include "pages/retire.h"
#include "pressure/pressure.h"
#include "process/ready.h"
#include "process/thread_entry.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/bypass.h"
#include "settings/stats.h"
#include "threads/capture.h"

static ZG_COLD void *allocate_elsewhere(uint64_t size, uint64_t alignment, bool zero) {
    // A thread that bypasses the runtime works for ZombieGuard, not for the program, so its blocks are not counted.
    void *block = zg_thread_self == &zg_thread_bypassing ? zg_foreign_allocate_bypassed(size, alignment, zero)
                                                         : zg_foreign_allocate(size, alignment, zero);
    if (!block) errno = ENOMEM;
    return block;
}

// More than the memory of almost any machine: the quarantine is not evicted for a request of this size.
#define IMPOSSIBLE_SIZE ((uint64_t)1 << 40)

// The heap is exhausted, so libc serves the block. If libc fails too, evict the quarantine and ask both again.
static ZG_COLD void *allocate_exhausted(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                                        const uint64_t *frame) {
    zg_stats_degrade(zg_degradation_heap_exhausted);
    zg_coverage_declined(zg_coverage_reason_heap);
    void *block = zg_foreign_allocate(size, alignment, zero);
    struct zg_thread *thread = block || size >= IMPOSSIBLE_SIZE ? NULL : zg_thread_enter(frame);
    if (thread && !zg_allowance_is_relief_vain(thread)) {
        zg_pressure_note_failure();
        zg_relief_trim(thread, true);
        block = zg_allocate(thread, size, alignment, family, zero);
        if (!block) zg_allowance_note_vain(thread);
        zg_thread_leave(thread);
        if (!block) block = zg_foreign_allocate(size, alignment, zero);
    } else if (thread) {
        zg_thread_leave(thread);
    }
    if (!block) errno = ENOMEM;
    return block;
}

// After libc refused, the reserve serves this many blocks before libc is asked again, because libc takes several system
// calls to refuse. The number doubles with each refusal.
enum { ASKED_FIRST = 16, ASKED_LAST = 1024 };
static uint32_t reserve_left, reserve_last;

bool zg_entry_reserve_is_next(void) {
    uint32_t left = __atomic_load_n(&reserve_left, __ATOMIC_RELAXED);
    if (left) __atomic_store_n(&reserve_left, left - 1, __ATOMIC_RELAXED);
    return left;
}

void *zg_entry_allocate_from_reserve(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                                     const uint64_t *frame) {
    if (size <= ZG_LARGEST_SLOT && !__atomic_load_n(&reserve_left, __ATOMIC_RELAXED)) {
        uint32_t last = __atomic_load_n(&reserve_last, __ATOMIC_RELAXED);
        uint32_t now = last ? (uint32_t)zg_min(2 * last, ASKED_LAST) : ASKED_FIRST;
        __atomic_store_n(&reserve_last, now, __ATOMIC_RELAXED);
        __atomic_store_n(&reserve_left, now, __ATOMIC_RELAXED);
    }
    struct zg_thread *thread = zg_thread_enter(frame);
    void *block = NULL;
    if (thread && size <= PTRDIFF_MAX && zg_allowance_take_block(thread, size)) {
        thread->skips_isolation = true;
        block = zg_allocate(thread, size, alignment, family, zero);
        thread->skips_isolation = false;
    }
    if (thread) zg_thread_leave(thread);
    if (!block) errno = ENOMEM;
    return block;
}

static ZG_NOINLINE void *allocate_slowly(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                                         const uint64_t *frame) {
    if (ZG_UNLIKELY(size > PTRDIFF_MAX)) {
        errno = ENOMEM;
        return NULL;
    }
    struct zg_thread *thread = zg_thread_enter(frame);
    if (ZG_UNLIKELY(!thread)) return allocate_elsewhere(size, alignment, zero);
    if (ZG_UNLIKELY(zg_allowance_is_limited) && !zg_allowance_take_block(thread, size)) {
        zg_thread_leave(thread);
        // libc's allocator may have memory left.
        if (zg_bypass_mode && zg_allowance_charge_bypassed(size)) return allocate_elsewhere(size, alignment, zero);
        errno = ENOMEM;
        return NULL;
    }
    void *block = zg_allocate(thread, size, alignment, family, zero);
    zg_thread_leave(thread);
    if (ZG_UNLIKELY(!block && zg_bypass_mode == zg_bypass_sample)) {
        block = allocate_elsewhere(size, alignment, zero);
        if (block || !zg_bypass_may_fail) return block;
        return zg_entry_allocate_from_reserve(size, alignment, family, zero, frame);
    }
    if (ZG_UNLIKELY(!block)) return allocate_exhausted(size, alignment, family, zero, frame);
    return block;
}

// Slower paths are reached by tail calls only, so that no register has to be saved.
ZG_INLINE void *allocate_quickly(uint64_t size, enum zg_alloc_family family, bool zero, const uint64_t *frame,
                                 bool is_tagged) {
    struct zg_thread *thread = zg_thread_enter_quickly(frame);
    if (ZG_UNLIKELY(!thread)) return NULL;
    bool is_zero;
    void *block = zg_allocate_quickly(thread, size, family, zg_capture_cached(thread, frame), &is_zero, is_tagged);
    if (ZG_UNLIKELY(!block)) {
        thread->in_runtime = 0;
        return NULL;
    }
    if (is_tagged) {
        if (zero && !is_zero) __builtin_memset(block, 0, size);
        block = zg_allocate_give_tag(block, size, 16);
    }
    zg_thread_leave(thread);
    if (is_tagged) return block;
    if (zero && !is_zero) return __builtin_memset(block, 0, size);
    return block;
}

static ZG_NOINLINE void *malloc_slowly(uint64_t size, const uint64_t *frame) {
    return allocate_slowly(size, 16, zg_family_malloc, false, frame);
}

// With memory tags, separate functions serve the calls, so that programs without tags pay only for the test.
static ZG_NOINLINE void *malloc_tagged(uint64_t size, const uint64_t *frame) {
    void *block =
        ZG_LIKELY(size < zg_allocate_quick_end) ? allocate_quickly(size, zg_family_malloc, false, frame, true) : NULL;
    if (ZG_LIKELY(block != NULL)) return block;
    ZG_MUST_TAIL return malloc_slowly(size, frame);
}

static ZG_NOINLINE void *allocate_tagged(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                                         const uint64_t *frame) {
    void *block = NULL;
    if (ZG_LIKELY(size < zg_allocate_quick_end && alignment <= 16))
        block = allocate_quickly(size, family, zero, frame, true);
    if (ZG_LIKELY(block != NULL)) return block;
    ZG_MUST_TAIL return allocate_slowly(size, alignment, family, zero, frame);
}

void *zg_entry_malloc(uint64_t size, const uint64_t *frame) {
    if (zg_tags_are_on()) ZG_MUST_TAIL return malloc_tagged(size, frame);
    void *block =
        ZG_LIKELY(size < zg_allocate_quick_end) ? allocate_quickly(size, zg_family_malloc, false, frame, false) : NULL;
    if (ZG_LIKELY(block != NULL)) return block;
    ZG_MUST_TAIL return malloc_slowly(size, frame);
}

void *zg_entry_allocate(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                        const uint64_t *frame) {
    if (zg_tags_are_on()) ZG_MUST_TAIL return allocate_tagged(size, alignment, family, zero, frame);
    void *block = NULL;
    if (ZG_LIKELY(size < zg_allocate_quick_end && alignment <= 16))
        block = allocate_quickly(size, family, zero, frame, false);
    if (ZG_LIKELY(block != NULL)) return block;
    ZG_MUST_TAIL return allocate_slowly(size, alignment, family, zero, frame);
}

// Frees a block if the runtime cannot be entered: it is not ready, a signal handler interrupted it, or the thread
// bypasses it.
static ZG_COLD void free_elsewhere(void *address, enum zg_deallocator deallocator, uint64_t size,
                                   const uint64_t *frame) {
    int saved = errno;
    struct zg_thread *thread;
    if (!zg_lookup_is_in_heap((uint64_t)address)) zg_foreign_free(address, zg_foreign_libc);
    else if ((thread = zg_thread_enter_from_bypass(frame)) != NULL) {
        zg_free_entered(thread, (uint64_t)address, deallocator, size);
        zg_thread_leave_to_bypass(thread);
    } else if ((thread = zg_thread_current_or_null()) != NULL &&
               __atomic_load_n(&thread->deferred_free_count, __ATOMIC_RELAXED) < ZG_DEFERRED_FREES - 1) {
        // Reserve the array's entry first, because a signal handler may interrupt this code.
        uint32_t at = __atomic_fetch_add(&thread->deferred_free_count, 1, __ATOMIC_RELAXED);
        thread->deferred_frees[at] = address;
        zg_thread_request_deferred(thread, zg_deferred_frees);
    }
    // Otherwise leak the block: signal handlers freed too many blocks during one call of the runtime.
    errno = saved;
}

static ZG_NOINLINE void free_slowly(void *address, enum zg_deallocator deallocator, uint64_t size,
                                    const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (ZG_UNLIKELY(!thread)) return free_elsewhere(address, deallocator, size, frame);
    zg_free_entered(thread, (uint64_t)address, deallocator, size);
    zg_thread_leave(thread);
}

static ZG_NOINLINE void finish_and_leave(struct zg_thread *thread, uint64_t address, struct zg_slab *slab,
                                         uint64_t index, uint32_t header) {
    zg_free_finish(thread, address, (struct zg_pending_free){&slab->blocks[index], slab, index, header});
    zg_thread_leave(thread);
}

static ZG_NOINLINE void hand_over_and_leave(struct zg_thread *thread) {
    zg_free_flush_pending(thread);
    zg_witness_renew();
    zg_thread_leave(thread);
}

// As in allocate_quickly, slower paths are reached by tail calls. Returns true if the free is done.
ZG_INLINE bool free_quickly(void *address, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame,
                            bool is_tagged) {
    if (ZG_UNLIKELY(!address)) return true;
    struct zg_thread *thread = zg_thread_enter_quickly(frame);
    if (ZG_UNLIKELY(!thread)) return false;
    struct zg_pending_free pending;
    enum zg_free_result freed = zg_free_quickly(
        thread, (struct zg_free_call){(uint64_t)address, deallocator, size, frame, 0}, &pending, is_tagged);
    if (ZG_UNLIKELY(freed == zg_free_declined)) {
        thread->in_runtime = 0;
        return false;
    }
    if (ZG_LIKELY(freed == zg_free_done)) zg_thread_leave(thread);
    else if (freed == zg_free_claimed)
        finish_and_leave(thread, is_tagged ? zg_arch_address((uint64_t)address) : (uint64_t)address, pending.slab,
                         pending.index, pending.header);
    else hand_over_and_leave(thread);
    return true;
}

static ZG_NOINLINE void plain_free_slowly(void *address, const uint64_t *frame) {
    free_slowly(address, zg_deallocator_free, ZG_ANY_SIZE, frame);
}

static ZG_NOINLINE void plain_free_tagged(void *address, const uint64_t *frame) {
    if (ZG_LIKELY(free_quickly(address, zg_deallocator_free, ZG_ANY_SIZE, frame, true))) return;
    ZG_MUST_TAIL return plain_free_slowly(address, frame);
}

void zg_entry_plain_free(void *address, const uint64_t *frame) {
    if (zg_tags_are_on()) ZG_MUST_TAIL return plain_free_tagged(address, frame);
    if (ZG_LIKELY(free_quickly(address, zg_deallocator_free, ZG_ANY_SIZE, frame, false))) return;
    ZG_MUST_TAIL return plain_free_slowly(address, frame);
}

static ZG_NOINLINE void free_tagged(void *address, enum zg_deallocator deallocator, uint64_t size,
                                    const uint64_t *frame) {
    if (ZG_LIKELY(free_quickly(address, deallocator, size, frame, true))) return;
    ZG_MUST_TAIL return free_slowly(address, deallocator, size, frame);
}

void zg_entry_free(void *address, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame) {
    if (zg_tags_are_on()) ZG_MUST_TAIL return free_tagged(address, deallocator, size, frame);
    if (ZG_LIKELY(free_quickly(address, deallocator, size, frame, false))) return;
    ZG_MUST_TAIL return free_slowly(address, deallocator, size, frame);
}

// Charges a resize to the allowance. A large block needs only the difference, because it grows in place or by moving
// pages, as in glibc. Resizing a smaller block copies it, so that two blocks exist briefly.
static bool may_resize(struct zg_thread *thread, const void *address, uint64_t size) {
    struct zg_block_view view;
    if (!zg_lookup_block((uint64_t)address, &view) || size <= view.size) return true;
    return view.size > ZG_LARGEST_SLOT ? zg_allowance_take(thread, size - view.size)
                                       : zg_allowance_take_block(thread, size);
}

static ZG_NOINLINE void *reallocate_slowly(void *address, uint64_t size, const uint64_t *frame) {
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    bool ours = zg_lookup_is_in_heap((uint64_t)address);
    struct zg_thread *thread = zg_thread_enter(frame);
    void *block = NULL;
    if (!ours) {
        bool is_libcs = !zg_ready() || zg_thread_self == &zg_thread_bypassing;
        enum zg_foreign_owner owner = is_libcs ? zg_foreign_libc : zg_foreign_owner((uint64_t)address);
        if (thread && owner == zg_foreign_none)
            zg_found_invalid_free(NULL, (uint64_t)address, zg_foreign_describe((uint64_t)address), "realloc");
        if (thread) zg_thread_leave(thread);
        if (owner == zg_foreign_none) return NULL;
        block = zg_foreign_reallocate(address, size, owner);
        // libc does not change a block that cannot grow, so release memory and try again.
        if (ZG_UNLIKELY(!block && size && size < IMPOSSIBLE_SIZE) && (thread = zg_thread_enter(frame)) != NULL) {
            bool is_vain = zg_allowance_is_relief_vain(thread);
            if (!is_vain) {
                zg_pressure_note_failure();
                zg_relief_trim(thread, true);
            }
            zg_thread_leave(thread);
            if (!is_vain) block = zg_foreign_reallocate(address, size, owner);
        }
        return block;
    }
    if (thread) {
        if (ZG_UNLIKELY(zg_allowance_is_limited) && !may_resize(thread, address, size)) {
            zg_thread_leave(thread);
            errno = ENOMEM;
            return NULL;
        }
        block = zg_reallocate(thread, (uint64_t)address, size);
        zg_thread_leave(thread);
        if (block) return block;
    }
    // The thread is already in the runtime, or the heap is exhausted: copy the contents to another block.
    struct zg_block_view view;
    if (!zg_lookup_block((uint64_t)address, &view)) return NULL;
    block = thread ? allocate_exhausted(size, 16, zg_family_malloc, false, frame) : allocate_elsewhere(size, 16, false);
    if (!block) return NULL;
    if (zg_tags_are_on()) address = (void *)zg_tags_pointer(zg_arch_address((uint64_t)address));
    __builtin_memcpy(block, address, zg_min(view.size, size));
    zg_entry_free(address, zg_deallocator_realloc, ZG_ANY_SIZE, frame);
    return block;
}

void *zg_entry_reallocate(void *address, uint64_t size, const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter_quickly(frame);
    if (ZG_LIKELY(thread != NULL)) {
        void *block = zg_reallocate_quickly(thread, (uint64_t)address, size, frame);
        if (ZG_LIKELY(block != NULL)) {
            zg_thread_leave(thread);
            return block;
        }
        thread->in_runtime = 0;
    }
    ZG_MUST_TAIL return reallocate_slowly(address, size, frame);
}

static ZG_COLD void found_misused(const struct zg_block_view *view, void *address, const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return;
    const char *what = view                                        ? "interior pointer"
                       : zg_retire_is_forgotten((uint64_t)address) ? ZG_FREE_MEMORY
                                                                   : zg_foreign_describe((uint64_t)address);
    zg_found_misused(view, zg_arch_address((uint64_t)address), what, "malloc_usable_size");
    zg_thread_leave(thread);
}

uint64_t zg_entry_usable_size(void *address, const uint64_t *frame) {
    if (!address) return 0;
    int saved = errno;
    struct zg_block_view view;
    uint64_t size = 0;
    if (zg_lookup_block((uint64_t)address, &view)) {
        size = view.size;
        if (view.offset || view.state != zg_state_live) found_misused(&view, address, frame);
    } else {
        // Without a heap, and for a thread that bypasses the runtime, all blocks are libc's.
        bool is_libcs = !zg_ready() || zg_thread_self == &zg_thread_bypassing;
        enum zg_foreign_owner owner = is_libcs ? zg_foreign_libc : zg_foreign_none;
        if (!is_libcs && !zg_lookup_is_in_heap((uint64_t)address)) owner = zg_foreign_owner((uint64_t)address);
        if (owner == zg_foreign_none) found_misused(NULL, address, frame);
        else size = zg_foreign_usable_size(address, owner);
    }
    errno = saved;
    return size;
}

uint64_t zg_entry_trim(bool quarantine, const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return 0;
    uint64_t bytes = zg_relief_trim(thread, quarantine);
    zg_thread_leave(thread);
    return bytes;
}

void *zg_entry_allocate_measured(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                                 const uint64_t *frame) {
    uint64_t ticks = zg_arch_ticks();
    void *block = zg_entry_allocate(size, alignment, family, zero, frame);
    zg_budget_spend(ticks);
    return block;
}

void zg_entry_free_measured(void *address, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame) {
    uint64_t ticks = zg_arch_ticks();
    zg_entry_free(address, deallocator, size, frame);
    zg_budget_spend(ticks);
}
