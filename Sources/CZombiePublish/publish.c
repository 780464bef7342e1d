// Interposes malloc, free, the C++ operators, the signal and the thread functions of libc and libstdc++
// (zg_published.h).
// Linked into the preload library and into guarded test bundles, never into zguard.
// Hot path. Stack capture starts at the frame address that a published function passes down, so that frame must still
// exist: calls that pass it must not become tail calls (ZG_NO_TAIL_CALL).

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_nothing_is_published; // ISO C forbids an empty translation unit
#else

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "blocks/lookup.h"
#include "entry/entry.h"
#include "entry/libraries.h"
#include "faults/signals.h"
#include "heap/foreign.h"
#include "images/loader.h"
#include "images/module.h"
#include "include/zg_api.h"
#include "limits/allowance.h"
#include "limits/budget.h"
#include "limits/sample.h"
#include "platform/arch.h"
#include "process/ready.h"
#include "pages/locked.h"
#include "process/locking.h"
#include "process/runtime.h"
#include "process/thread_entry.h"
#include "process/maintenance_thread.h"
#include "settings/bypass.h"
#include "settings/stats.h"

// True if libc is to serve this block: it was not sampled, guarding it would exceed the overhead budget, or all blocks
// bypass the runtime.
#define ZG_SHOULD_BYPASS(name)                                                                                         \
    (ZG_UNLIKELY(zg_bypass_mode) && passes(zg_foreign_function_##name, (uint64_t)__builtin_return_address(0)))
// True for a block that libc allocated in bypass mode.
#define ZG_IS_PASSED(block) (ZG_UNLIKELY(zg_bypass_mode) && zg_lookup_is_foreign((uint64_t)(block)))

// Like ZG_IS_PASSED, for a block that is being freed. The block is also unlocked from memory (mlock): its pages would
// keep counting against RLIMIT_MEMLOCK, which the pages of guarded blocks need.
#define ZG_DROPS_PASSED(block) (ZG_IS_PASSED(block) && unlock_passed(block, ZG_FRAME))
ZG_INLINE bool unlock_passed(void *block, const uint64_t *frame) {
    if (ZG_UNLIKELY(zg_locked_any()) && block)
        zg_locking_block_bypassed((uint64_t)block, zg_next.usable_size(block), frame);
    return true;
}

// Sets `next` to the definition of a published function that follows the runtime's in symbol search order.
#define ZG_NEXT(result, symbol, parameters)                                                                            \
    typedef result next_function parameters;                                                                           \
    static next_function *next;                                                                                        \
    if (!next) next = (next_function *)zg_loader_next(#symbol)

// --- start and end -------------------------------------------------------------------------------------------------

static void (*next_free)(void *);

// Replaces libc's free while all blocks bypass the runtime. A call of this function shows that the allocator in front
// of the runtime forwards to the runtime, so guarding can begin.
static void free_while_all_passes(void *block) {
    if (zg_foreign_note_forwarded(zg_foreign_function_free) && zg_runtime_is_started()) zg_sample_start();
    next_free(block);
}

// Decides before the first allocation whether all blocks bypass the runtime.
static void decide_bypass(void) {
    if (!zg_ready() || zg_bypass_mode != zg_bypass_all) return;
    next_free = zg_next.free;
    zg_next.free = free_while_all_passes;
}

__attribute__((constructor(101))) static void start(void) {
    if (zg_bypass_mode == zg_bypass_undecided) decide_bypass();
    zg_runtime_start();
}
__attribute__((destructor(101))) static void finish(void) { zg_runtime_finish(); }

ZG_PUBLISH const struct zg_api *zg_api(void);
ZG_PUBLISH const struct zg_api *zg_api(void) { return zg_api_own(); }

static ZG_COLD bool passes_all(enum zg_foreign_function function) {
    if (zg_bypass_mode == zg_bypass_undecided) decide_bypass();
    if (zg_bypass_mode != zg_bypass_all) return false;
    if (!zg_foreign_note_forwarded(function)) return zg_bypass_mode == zg_bypass_all;
    if (zg_runtime_is_started()) zg_sample_start();
    return false;
}

ZG_INLINE bool passes(enum zg_foreign_function function, uint64_t return_address) {
    if (zg_bypass_mode == zg_bypass_sample) return zg_sample_bypasses();
    return zg_bypass_mode == zg_bypass_budget ? zg_budget_bypasses(return_address) : passes_all(function);
}

// With an overhead budget, each guarded call is timed, and the times decide how many blocks are guarded.
ZG_INLINE void *allocate(size_t size, size_t alignment, enum zg_alloc_family family, bool zero, const uint64_t *frame) {
    if (ZG_LIKELY(zg_bypass_mode != zg_bypass_budget)) return zg_entry_allocate(size, alignment, family, zero, frame);
    return zg_entry_allocate_measured(size, alignment, family, zero, frame);
}

ZG_INLINE void release(void *block, enum zg_deallocator deallocator, size_t size, const uint64_t *frame) {
    if (ZG_LIKELY(zg_bypass_mode != zg_bypass_budget)) zg_entry_free(block, deallocator, size, frame);
    else zg_entry_free_measured(block, deallocator, size, frame);
}

static void *pass_on(size_t size, size_t alignment, bool zero) {
    uint64_t ticks = zg_arch_ticks();
    void *block = alignment > 16 ? zg_next.memalign(alignment, size)
                  : zero         ? zg_next.calloc(1, size)
                                 : zg_next.malloc(size);
    if (ZG_UNLIKELY(!block)) zg_allowance_discount(ticks);
    return block;
}

// Allocates from libc, or from the guarded heap's reserved address space if libc can map nothing more under the
// program's RLIMIT_AS. Tries the guarded heap first if zg_entry_reserve_is_next. errno is kept on success, ENOMEM on
// failure.
static void *pass_or_serve(size_t size, size_t alignment, bool zero, enum zg_alloc_family family,
                           const uint64_t *frame) {
    void *block = NULL;
    int saved = errno;
    if (!zg_allowance_charge_bypassed(size)) {
        errno = ENOMEM;
        return NULL;
    }
    bool is_asked = !zg_entry_reserve_is_next();
    if (is_asked && (block = pass_on(size, alignment, zero)) != NULL) return block;
    block = zg_entry_allocate_from_reserve(size, alignment, family, zero, frame);
    if (!block && !is_asked) block = pass_on(size, alignment, zero);
    if (block) errno = saved;
    return block;
}

// --- C ---------------------------------------------------------------------------------------------------------------

static void *aligned(enum zg_foreign_function function, size_t alignment, size_t size, const uint64_t *frame) {
    if (alignment > PTRDIFF_MAX) {
        errno = EINVAL;
        return NULL;
    }
    // glibc rounds an alignment up to the next power of two.
    uint64_t rounded = 16;
    while (rounded < alignment) rounded *= 2;
    if (ZG_UNLIKELY(zg_bypass_mode) && passes(function, frame[1])) {
        if (ZG_UNLIKELY(zg_bypass_may_fail)) return pass_or_serve(size, rounded, false, zg_family_aligned, frame);
        return zg_next.memalign(rounded, size);
    }
    return allocate(size, rounded, zg_family_aligned, false, frame);
}

static ZG_NOINLINE void *guarded_malloc(size_t size) {
    void *block = allocate(size, 16, zg_family_malloc, false, ZG_FRAME);
    ZG_NO_TAIL_CALL(block);
    return block;
}

static ZG_NOINLINE void *passed_malloc(size_t size) {
    void *block = pass_or_serve(size, 16, false, zg_family_malloc, ZG_FRAME);
    ZG_NO_TAIL_CALL(block);
    return block;
}

static ZG_NOINLINE void *chosen_malloc(size_t size) {
    if (ZG_SHOULD_BYPASS(malloc)) {
        if (ZG_UNLIKELY(zg_bypass_may_fail)) ZG_MUST_TAIL return passed_malloc(size);
        ZG_MUST_TAIL return zg_next.malloc(size);
    }
    ZG_MUST_TAIL return guarded_malloc(size);
}

ZG_PUBLISH void *malloc(size_t size) {
    if (ZG_UNLIKELY(zg_bypass_mode)) ZG_MUST_TAIL return chosen_malloc(size);
    void *block = zg_entry_malloc(size, ZG_FRAME);
    ZG_NO_TAIL_CALL(block);
    return block;
}

static ZG_NOINLINE void *guarded_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = allocate(bytes, 16, zg_family_malloc, true, ZG_FRAME);
    ZG_NO_TAIL_CALL(block);
    return block;
}

static ZG_NOINLINE void *passed_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = pass_or_serve(bytes, 16, true, zg_family_malloc, ZG_FRAME);
    ZG_NO_TAIL_CALL(block);
    return block;
}

ZG_PUBLISH void *calloc(size_t count, size_t size) {
    if (ZG_SHOULD_BYPASS(calloc)) {
        if (ZG_UNLIKELY(zg_bypass_may_fail)) ZG_MUST_TAIL return passed_calloc(count, size);
        ZG_MUST_TAIL return zg_next.calloc(count, size);
    }
    ZG_MUST_TAIL return guarded_calloc(count, size);
}

// If libc cannot grow its block, moves the contents to a block of the guarded heap.
static void *resize_passed(void *block, size_t size, const uint64_t *frame) {
    if (!block) return pass_or_serve(size, 16, false, zg_family_malloc, frame);
    void *resized = zg_next.realloc(block, size);
    if (resized || !size) return resized;
    resized = zg_entry_allocate_from_reserve(size, 16, zg_family_malloc, false, frame);
    if (!resized) return NULL;
    size_t usable = zg_next.usable_size(block);
    __builtin_memcpy(resized, block, usable < size ? usable : size);
    zg_next.free(block);
    return resized;
}

static void *resize(void *block, size_t size, const uint64_t *frame) {
    // libc's realloc keeps libc's blocks in libc's heap; realloc(NULL) may bypass the runtime like malloc.
    if (block ? ZG_IS_PASSED(block) : ZG_SHOULD_BYPASS(realloc)) {
        if (ZG_UNLIKELY(zg_bypass_may_fail)) return resize_passed(block, size, frame);
        return zg_next.realloc(block, size);
    }
    if (!block) return allocate(size, 16, zg_family_malloc, false, frame);
    if (size || !zg_libc_frees_by_realloc) return zg_entry_reallocate(block, size, frame);
    release(block, zg_deallocator_realloc, ZG_ANY_SIZE, frame);
    return NULL;
}

ZG_PUBLISH void *realloc(void *block, size_t size) {
    void *resized = resize(block, size, ZG_FRAME);
    ZG_NO_TAIL_CALL(resized);
    return resized;
}

// Calls the program's realloc, as libc's reallocarray does: another allocator that defines realloc but not reallocarray
// must get its own blocks back. The address comes from the global offset table, which also finds a realloc defined in
// the executable or substituted by valgrind.
ZG_PUBLISH void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *(*resizes)(void *, size_t) = realloc;
    ZG_NO_TAIL_CALL(resizes);
    return resizes(block, bytes);
}

static ZG_NOINLINE void guarded_free(void *block) {
    release(block, zg_deallocator_free, ZG_ANY_SIZE, ZG_FRAME);
    ZG_NO_TAIL_CALL_VOID();
}

static ZG_NOINLINE void chosen_free(void *block) {
    if (ZG_DROPS_PASSED(block)) ZG_MUST_TAIL return zg_next.free(block);
    ZG_MUST_TAIL return guarded_free(block);
}

ZG_PUBLISH void free(void *block) {
    if (ZG_UNLIKELY(zg_bypass_mode)) ZG_MUST_TAIL return chosen_free(block);
    zg_entry_plain_free(block, ZG_FRAME);
    ZG_NO_TAIL_CALL_VOID();
}

// C23, 7.24.3.4 and 7.24.3.5; in glibc since 2.43.
ZG_PUBLISH void free_sized(void *block, size_t size);
ZG_PUBLISH void free_sized(void *block, size_t size) {
    if (ZG_DROPS_PASSED(block)) return zg_next.free(block);
    release(block, zg_deallocator_free_sized, size, ZG_FRAME);
    ZG_NO_TAIL_CALL_VOID();
}

ZG_PUBLISH void free_aligned_sized(void *block, size_t alignment, size_t size);
ZG_PUBLISH void free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment;
    if (ZG_DROPS_PASSED(block)) return zg_next.free(block);
    release(block, zg_deallocator_free_aligned_sized, size, ZG_FRAME);
    ZG_NO_TAIL_CALL_VOID();
}

ZG_PUBLISH void *memalign(size_t alignment, size_t size) {
    void *block = aligned(zg_foreign_function_memalign, alignment, size, ZG_FRAME);
    ZG_NO_TAIL_CALL(block);
    return block;
}

ZG_PUBLISH void *aligned_alloc(size_t alignment, size_t size) {
    void *block = aligned(zg_foreign_function_aligned_alloc, alignment, size, ZG_FRAME);
    ZG_NO_TAIL_CALL(block);
    return block;
}

ZG_PUBLISH int posix_memalign(void **block, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) || !zg_is_power_of_two(alignment)) return EINVAL;
    int saved = errno;
    void *made = ZG_SHOULD_BYPASS(posix_memalign)
                     ? ZG_UNLIKELY(zg_bypass_may_fail)
                           ? pass_or_serve(size, alignment < 16 ? 16 : alignment, false, zg_family_aligned, ZG_FRAME)
                           : zg_next.memalign(alignment, size)
                     : allocate(size, alignment < 16 ? 16 : alignment, zg_family_aligned, false, ZG_FRAME);
    ZG_NO_TAIL_CALL(made);
    errno = saved;
    if (!made) return ENOMEM;
    *block = made;
    return 0;
}

ZG_PUBLISH void *valloc(size_t size) {
    void *block = aligned(zg_foreign_function_valloc, ZG_PAGE_BYTES, size, ZG_FRAME);
    ZG_NO_TAIL_CALL(block);
    return block;
}

ZG_PUBLISH void *pvalloc(size_t size) {
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = aligned(zg_foreign_function_pvalloc, ZG_PAGE_BYTES, zg_round_up(size, ZG_PAGE_BYTES), ZG_FRAME);
    ZG_NO_TAIL_CALL(block);
    return block;
}

#ifdef __GLIBC__
// glibc's internal names of the same functions. Allocators that merely wrap malloc call them. All of them must reach
// the same heap, because a block from one of these names may be freed through another.
ZG_PUBLISH void *__libc_malloc(size_t size) __attribute__((alias("malloc")));
ZG_PUBLISH void *__libc_calloc(size_t count, size_t size) __attribute__((alias("calloc")));
ZG_PUBLISH void *__libc_realloc(void *block, size_t size) __attribute__((alias("realloc")));
ZG_PUBLISH void *__libc_memalign(size_t alignment, size_t size) __attribute__((alias("memalign")));
ZG_PUBLISH void *__libc_valloc(size_t size) __attribute__((alias("valloc")));
ZG_PUBLISH void *__libc_pvalloc(size_t size) __attribute__((alias("pvalloc")));
ZG_PUBLISH void __libc_free(void *block) __attribute__((alias("free")));
#endif

ZG_PUBLISH size_t malloc_usable_size(void *block) {
    if (ZG_IS_PASSED(block)) return zg_next.usable_size(block);
    size_t size = zg_entry_usable_size(block, ZG_FRAME);
    ZG_NO_TAIL_CALL(size);
    return size;
}

// Returns free pages to the kernel. Keeps the quarantine: in a program that trims periodically, it would otherwise
// always be empty. `pad` is ignored.
ZG_PUBLISH int malloc_trim(size_t pad) {
    if (zg_bypass_mode) {
        ZG_NEXT(int, malloc_trim, (size_t));
        if (next) return next(pad);
        return 0;
    }
    (void)pad;
    int trimmed = zg_entry_trim(false, ZG_FRAME) != 0;
    ZG_NO_TAIL_CALL(trimmed);
    return trimmed;
}

#ifdef __GLIBC__ // musl has no functions for heap statistics
// Layout of glibc 2.33's struct mallinfo2 (malloc.h), for C libraries whose headers lack the type.
struct wide_mallinfo {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

ZG_PUBLISH struct wide_mallinfo zg_published_mallinfo2(void) __asm__("mallinfo2");
ZG_PUBLISH struct wide_mallinfo zg_published_mallinfo2(void) {
    if (zg_bypass_mode) {
        ZG_NEXT(struct wide_mallinfo, mallinfo2, (void));
        if (next) return next();
        return (struct wide_mallinfo){0};
    }
    uint64_t committed = zg_stats_get(zg_counter_heap_committed_bytes), live = zg_stats_get(zg_counter_live_bytes);
    uint64_t held = zg_stats_get(zg_counter_quarantined_bytes);
    return (struct wide_mallinfo){.arena = committed,
                                  .ordblks = 1,
                                  .usmblks = zg_stats_get(zg_counter_live_bytes_peak),
                                  .fsmblks = held,
                                  .uordblks = live,
                                  .fordblks = committed > live ? committed - live : 0};
}

ZG_PUBLISH struct mallinfo mallinfo(void) {
    struct wide_mallinfo wide = zg_published_mallinfo2();
    return (struct mallinfo){.arena = (int)wide.arena,
                             .ordblks = (int)wide.ordblks,
                             .usmblks = (int)wide.usmblks,
                             .fsmblks = (int)wide.fsmblks,
                             .uordblks = (int)wide.uordblks,
                             .fordblks = (int)wide.fordblks};
}

// Accepts glibc's tuning parameters, which have no effect on the guarded heap.
ZG_PUBLISH int mallopt(int parameter, int value) {
    if (zg_bypass_mode) {
        ZG_NEXT(int, mallopt, (int, int));
        if (next) return next(parameter, value);
        return 1;
    }
    (void)parameter, (void)value;
    return 1;
}

// malloc_stats prints to standard error and malloc_info to the given stream, as in glibc.
ZG_PUBLISH void malloc_stats(void) {
    if (zg_bypass_mode) {
        ZG_NEXT(void, malloc_stats, (void));
        if (next) next();
        return;
    }
    struct wide_mallinfo info = zg_published_mallinfo2();
    fprintf(stderr, "system bytes     = %10zu\nin use bytes     = %10zu\n", info.arena, info.uordblks);
}

ZG_PUBLISH int malloc_info(int options, FILE *stream) {
    if (zg_bypass_mode) {
        ZG_NEXT(int, malloc_info, (int, FILE *));
        if (next) return next(options, stream);
        return 0;
    }
    if (options != 0) return EINVAL;
    struct wide_mallinfo info = zg_published_mallinfo2();
    fprintf(stream,
            "<malloc version=\"1\">\n<system type=\"current\" size=\"%zu\"/>\n<total type=\"in-use\" size=\"%zu\"/>\n"
            "<total type=\"quarantine\" size=\"%zu\"/>\n</malloc>\n",
            info.arena, info.uordblks, info.fsmblks);
    return 0;
}
#endif

// --- C++ -------------------------------------------------------------------------------------------------------------

// A program that replaces some C++ operators expects the other operators to call them. A program with its own malloc or
// free expects all operators to call its malloc and free. The C++ library's operators do both, so the runtime's
// operators then forward to them. Decided once, at the first use of any operator.
static uint32_t replaced; // 0 undecided, 1 no, 2 yes
#ifdef ZG_STATIC
static bool has_other_operators(void) { return !zg_static_operators_are_own(); }
#else
static bool has_other_operators(void) {
    static const char *const names[] = {"_Znwm",
                                        "_Znam",
                                        "_ZdlPv",
                                        "_ZdaPv",
                                        "_ZdlPvm",
                                        "_ZdaPvm",
                                        "_ZnwmRKSt9nothrow_t",
                                        "_ZnamRKSt9nothrow_t",
                                        "_ZnwmSt11align_val_t",
                                        "_ZdlPvSt11align_val_t"};
    struct zg_module ours, theirs;
    if (!zg_module_find_unwind((uint64_t)start, &ours)) return false;
    for (size_t i = 0; i < ZG_ARRAY_COUNT(names); i++) {
        void *found = zg_loader_first(names[i]);
        if (found && zg_module_find_unwind((uint64_t)found, &theirs) && theirs.start != ours.start) return true;
    }
    return false;
}
#endif

static ZG_COLD bool detect_replaced_operators(void) {
    zg_ready();
    uint32_t answer = zg_foreign_is_interposed() || has_other_operators() ? 2 : 1;
    if (answer == 2) zg_stats_degrade(zg_degradation_cxx_operators_replaced);
    __atomic_store_n(&replaced, answer, __ATOMIC_RELAXED);
    return answer == 2;
}
ZG_INLINE bool operators_are_replaced(void) {
    uint32_t answer = __atomic_load_n(&replaced, __ATOMIC_RELAXED);
    return ZG_UNLIKELY(answer != 1) && (answer == 2 || detect_replaced_operators());
}

static void *pass_new(size_t size, size_t alignment, enum zg_alloc_family family, const uint64_t *frame) {
    if (ZG_UNLIKELY(zg_bypass_may_fail)) return pass_or_serve(size, alignment, false, family, frame);
    return alignment > 16 ? zg_next.memalign(alignment, size) : zg_next.malloc(size);
}

// A static executable contains one definition of each operator: weak, so that the program's own definition replaces it.
#ifdef ZG_STATIC
#define ZG_MAY_BE_REPLACED __attribute__((weak))
#else
#define ZG_MAY_BE_REPLACED
#endif

// Allocates from the guarded heap. If the program replaces operators or memory runs out, calls the C++ library's
// operator, which calls the new-handler and throws. C code cannot throw.
#define ZG_NEW(symbol, parameters, arguments, alignment, kind)                                                         \
    ZG_PUBLISH ZG_MAY_BE_REPLACED void *symbol parameters;                                                             \
    ZG_PUBLISH void *symbol parameters {                                                                               \
        void *block = NULL;                                                                                            \
        if (ZG_LIKELY(!operators_are_replaced())) {                                                                    \
            if (ZG_SHOULD_BYPASS(count)) block = pass_new(size, alignment, zg_family_##kind, ZG_FRAME);                \
            else block = allocate(size, alignment, zg_family_##kind, false, ZG_FRAME);                                 \
            ZG_NO_TAIL_CALL(block);                                                                                    \
            if (ZG_LIKELY(block != NULL)) return block;                                                                \
        }                                                                                                              \
        ZG_NEXT(void *, symbol, parameters);                                                                           \
        return next ? next arguments : block;                                                                          \
    }

#define ZG_DELETE(symbol, parameters, arguments, deallocator, told_size)                                               \
    ZG_PUBLISH ZG_MAY_BE_REPLACED void symbol parameters;                                                              \
    ZG_PUBLISH void symbol parameters {                                                                                \
        if (ZG_UNLIKELY(operators_are_replaced())) {                                                                   \
            ZG_NEXT(void, symbol, parameters);                                                                         \
            if (next) {                                                                                                \
                next arguments;                                                                                        \
                return;                                                                                                \
            }                                                                                                          \
        }                                                                                                              \
        if (ZG_DROPS_PASSED(block)) return zg_next.free(block);                                                        \
        release(block, zg_deallocator_##deallocator, told_size, ZG_FRAME);                                             \
        ZG_NO_TAIL_CALL_VOID();                                                                                        \
    }

#define ZG_AT_LEAST_16(alignment) ((alignment) < 16 ? 16 : (alignment))

ZG_NEW(_Znwm, (size_t size), (size), 16, new)
ZG_NEW(_ZnwmRKSt9nothrow_t, (size_t size, const void *tag), (size, tag), 16, new)
ZG_NEW(_ZnwmSt11align_val_t, (size_t size, size_t alignment), (size, alignment), ZG_AT_LEAST_16(alignment), new_aligned)
ZG_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void *tag), (size, alignment, tag),
       ZG_AT_LEAST_16(alignment), new_aligned)
ZG_NEW(_Znam, (size_t size), (size), 16, new_array)
ZG_NEW(_ZnamRKSt9nothrow_t, (size_t size, const void *tag), (size, tag), 16, new_array)
ZG_NEW(_ZnamSt11align_val_t, (size_t size, size_t alignment), (size, alignment), ZG_AT_LEAST_16(alignment),
       new_array_aligned)
ZG_NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void *tag), (size, alignment, tag),
       ZG_AT_LEAST_16(alignment), new_array_aligned)

ZG_DELETE(_ZdlPv, (void *block), (block), delete, ZG_ANY_SIZE)
ZG_DELETE(_ZdlPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag), delete, ZG_ANY_SIZE)
ZG_DELETE(_ZdlPvm, (void *block, size_t size), (block, size), delete, size)
ZG_DELETE(_ZdlPvSt11align_val_t, (void *block, size_t alignment), (block, alignment), delete_aligned, ZG_ANY_SIZE)
ZG_DELETE(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment), (block, size, alignment),
          delete_aligned, size)
ZG_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *tag),
          (block, alignment, tag), delete_aligned, ZG_ANY_SIZE)
ZG_DELETE(_ZdaPv, (void *block), (block), delete_array, ZG_ANY_SIZE)
ZG_DELETE(_ZdaPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag), delete_array, ZG_ANY_SIZE)
ZG_DELETE(_ZdaPvm, (void *block, size_t size), (block, size), delete_array, size)
ZG_DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment), (block, alignment), delete_array_aligned, ZG_ANY_SIZE)
ZG_DELETE(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment), (block, size, alignment),
          delete_array_aligned, size)
ZG_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *tag),
          (block, alignment, tag), delete_array_aligned, ZG_ANY_SIZE)

// --- signals ---------------------------------------------------------------------------------------------------------

ZG_PUBLISH int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    return zg_signals_action(number, action, old);
}
#ifdef __GLIBC__
ZG_PUBLISH int __sigaction(int number, const struct sigaction *action, struct sigaction *old);
ZG_PUBLISH int __sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    return zg_signals_action(number, action, old);
}
#endif

static uint64_t interrupting_signals; // signals that interrupt system calls (siginterrupt), one bit each

static sighandler_t set_handler(int number, sighandler_t handler, int flags) {
    if (handler == SIG_ERR || number < 1 || number >= NSIG) {
        errno = EINVAL;
        return SIG_ERR;
    }
    if (__atomic_load_n(&interrupting_signals, __ATOMIC_RELAXED) >> (number - 1) & 1) flags &= ~SA_RESTART;
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
    if (!(flags & SA_NODEFER)) sigaddset(&action.sa_mask, number);
    return zg_signals_action(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

// signal() has BSD semantics (glibc's default), sysv_signal() System V semantics.
ZG_PUBLISH sighandler_t signal(int number, sighandler_t handler) { return set_handler(number, handler, SA_RESTART); }
ZG_PUBLISH sighandler_t ssignal(int number, sighandler_t handler) { return set_handler(number, handler, SA_RESTART); }
ZG_PUBLISH sighandler_t bsd_signal(int number, sighandler_t handler);
ZG_PUBLISH sighandler_t bsd_signal(int number, sighandler_t handler) {
    return set_handler(number, handler, SA_RESTART);
}
ZG_PUBLISH sighandler_t sysv_signal(int number, sighandler_t handler) {
    return set_handler(number, handler, SA_RESETHAND | SA_NODEFER);
}
ZG_PUBLISH sighandler_t __sysv_signal(int number, sighandler_t handler);
ZG_PUBLISH sighandler_t __sysv_signal(int number, sighandler_t handler) {
    return set_handler(number, handler, SA_RESETHAND | SA_NODEFER);
}
ZG_PUBLISH int siginterrupt(int number, int interrupt) {
    struct sigaction action;
    if (zg_signals_action(number, NULL, &action) != 0) return -1;
    uint64_t bit = UINT64_C(1) << (number - 1);
    if (interrupt) __atomic_fetch_or(&interrupting_signals, bit, __ATOMIC_RELAXED);
    else __atomic_fetch_and(&interrupting_signals, ~bit, __ATOMIC_RELAXED);
    action.sa_flags = interrupt ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
    return zg_signals_action(number, &action, NULL);
}
ZG_PUBLISH int sigaltstack(const stack_t *restrict stack, stack_t *restrict old) {
    return zg_signals_stack(stack, old);
}

ZG_PUBLISH int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old) {
    return zg_signals_mask(how, set, old);
}
ZG_PUBLISH int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old) {
    int error = zg_signals_mask(how, set, old);
    if (error) errno = error;
    return error ? -1 : 0;
}

// --- threads ---------------------------------------------------------------------------------------------------------

struct thread_start {
    void *(*function)(void *);
    void *argument;
    uint32_t taken;
    struct zg_hidden_faults hidden;
};

// Start records of threads that are being created. They are not in the guarded heap, which holds only the program's
// blocks, and not in libc's, which a signal handler that calls free may enter at the same time.
static struct thread_start starts[256];

static struct thread_start *claim_start(void) {
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(starts); i++)
        if (!__atomic_exchange_n(&starts[i].taken, 1, __ATOMIC_ACQUIRE)) return &starts[i];
    return NULL;
}

static void release_start(struct thread_start *start) { __atomic_store_n(&start->taken, 0, __ATOMIC_RELEASE); }

static void register_thread(const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (thread) zg_thread_leave(thread);
}

static void *start_thread(void *pointer) {
    struct thread_start start = *(struct thread_start *)pointer;
    release_start(pointer);
    register_thread(ZG_FRAME);
    if (start.hidden.signals) zg_signals_hide(start.hidden);
    ZG_MUST_TAIL return start.function(start.argument);
}

// Since glibc 2.32, thread attributes may contain a signal mask. False if these attributes contain none.
static bool get_attribute_mask(const pthread_attr_t *attributes, sigset_t *mask) {
    static int (*get)(const pthread_attr_t *, sigset_t *);
    static bool is_known;
    if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)) {
        get = (int (*)(const pthread_attr_t *, sigset_t *))zg_module_function("pthread_attr_getsigmask_np");
        __atomic_store_n(&is_known, true, __ATOMIC_RELEASE);
    }
    return get && get(attributes, mask) == 0;
}

ZG_PUBLISH int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                              void *argument) {
    ZG_NEXT(int, pthread_create,
            (pthread_t * thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument));
    if (zg_runtime_is_started()) zg_maintenance_thread_before_new();
    zg_thread_before_new();
    struct thread_start *start =
        zg_ready() && (zg_bypass_mode != zg_bypass_sample || zg_signals_hidden().signals) ? claim_start() : NULL;
    if (!start) return next(thread, attributes, function, argument);
    start->function = function;
    start->argument = argument;
    sigset_t own;
    bool has_attribute_mask = attributes && get_attribute_mask(attributes, &own);
    start->hidden = has_attribute_mask ? (struct zg_hidden_faults){0, 0} : zg_signals_hidden();
    int result = next(thread, attributes, start_thread, start);
    if (result != 0) release_start(start);
    return result;
}

// --- forks -----------------------------------------------------------------------------------------------------------

#ifdef ZG_STATIC // libc.a has no other name for __register_atfork, which pthread_atfork calls
ZG_PUBLISH int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
    return zg_runtime_register_atfork(prepare, parent, child, NULL);
}
#else
// pthread_atfork is linked statically into each library and calls this function.
ZG_PUBLISH int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
ZG_PUBLISH int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library) {
    return zg_runtime_register_atfork(prepare, parent, child, library);
}

// --- the loader ------------------------------------------------------------------------------------------------------

// The rest of the file is for dynamically linked programs: static executables have no loader.
static void *(*next_dlopen)(const char *, int);
static int (*next_dlclose)(void *);

ZG_PUBLISH void *dlopen(const char *path, int flags) {
    if (!next_dlopen) next_dlopen = (void *(*)(const char *, int))zg_loader_next("dlopen");
    flags = zg_libraries_before_open(flags);
    ZG_MUST_TAIL return next_dlopen(path, flags);
}

ZG_PUBLISH int dlclose(void *library) {
    if (!next_dlclose) next_dlclose = (int (*)(void *))zg_loader_next("dlclose");
    zg_libraries_before_close();
    ZG_MUST_TAIL return next_dlclose(library);
}

#endif
#endif
