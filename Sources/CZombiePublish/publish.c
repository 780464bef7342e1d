// Publishes malloc, free and the others of zg_published.h over libc's and libstdc++'s definitions.
// Linked into the preload library and into guarded test bundles, never into zguard.
// Hot path. Each function passes its own frame address on: that is where a stack capture begins, so none of the calls may
// be a tail call (ZG_KEEP).

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_nothing_is_published; // C wants a declaration in every file
#else

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "blocks/lookup.h"
#include "door/door.h"
#include "door/libraries.h"
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
#include "process/watch.h"
#include "settings/passing.h"
#include "settings/stats.h"

// Libc serves this block: it was not chosen, or guarding it would cost too much.
#define ZG_PASSES(name) (ZG_UNLIKELY(zg_passing) && passes(zg_family_##name, (uint64_t)__builtin_return_address(0)))
// A block that libc made because it was passed on.
#define ZG_IS_PASSED(block) (ZG_UNLIKELY(zg_passing) && zg_lookup_is_foreign((uint64_t)(block)))

// The same of one that is freed. Its pages count against the limit that those of guarded blocks need, so it is unlocked, too.
#define ZG_DROPS_PASSED(block) (ZG_IS_PASSED(block) && unlock_passed(block, ZG_FRAME))
ZG_INLINE bool unlock_passed(void *block, const uint64_t *frame) {
    if (ZG_UNLIKELY(zg_locked_any()) && block)
        zg_locking_note_passed((uint64_t)block, zg_next.usable_size(block), frame);
    return true;
}

// The next definition of a published function, behind ours.
#define ZG_NEXT(result, symbol, parameters)                                                                            \
    typedef result next_function parameters;                                                                           \
    static next_function *next;                                                                                        \
    if (!next) next = (next_function *)zg_loader_next(#symbol)

// --- start and end -------------------------------------------------------------------------------------------------

static void (*next_free)(void *);

// As libc's, while everything is passed on: a call shows that what is in front hands on to ours.
static void free_while_all_passes(void *block) {
    if (zg_foreign_is_reached(zg_family_free) && zg_runtime_is_started()) zg_sample_start();
    next_free(block);
}

// Before the first block: whether all of them are passed on.
static void decide(void) {
    if (!zg_ready() || zg_passing != zg_passing_all) return;
    next_free = zg_next.free;
    zg_next.free = free_while_all_passes;
}

__attribute__((constructor(101))) static void start(void) {
    if (zg_passing == zg_passing_undecided) decide();
    zg_runtime_start();
}
__attribute__((destructor(101))) static void finish(void) { zg_runtime_finish(); }

ZG_PUBLISH const struct zg_api *zg_api(void);
ZG_PUBLISH const struct zg_api *zg_api(void) { return zg_api_own(); }

static ZG_COLD bool passes_all(enum zg_family function) {
    if (zg_passing == zg_passing_undecided) decide();
    if (zg_passing != zg_passing_all) return false;
    if (!zg_foreign_is_reached(function)) return zg_passing == zg_passing_all;
    if (zg_runtime_is_started()) zg_sample_start();
    return false;
}

ZG_INLINE bool passes(enum zg_family function, uint64_t return_address) {
    if (zg_passing == zg_passing_sample) return zg_sample_passes();
    return zg_passing == zg_passing_budget ? zg_budget_passes(return_address) : passes_all(function);
}

// With a limit on what guarding may cost, how many blocks are guarded follows from it, and each is measured.
ZG_INLINE void *allocate(size_t size, size_t alignment, enum zg_kind kind, bool zero, const uint64_t *frame) {
    if (ZG_LIKELY(zg_passing != zg_passing_budget)) return zg_door_allocate(size, alignment, kind, zero, frame);
    return zg_door_allocate_measured(size, alignment, kind, zero, frame);
}

ZG_INLINE void release(void *block, enum zg_deallocator deallocator, size_t size, const uint64_t *frame) {
    if (ZG_LIKELY(zg_passing != zg_passing_budget)) zg_door_free(block, deallocator, size, frame);
    else zg_door_free_measured(block, deallocator, size, frame);
}

static void *pass_on(size_t size, size_t alignment, bool zero) {
    uint64_t ticks = zg_arch_ticks();
    void *block = alignment > 16 ? zg_next.memalign(alignment, size)
                  : zero         ? zg_next.calloc(1, size)
                                 : zg_next.malloc(size);
    if (ZG_UNLIKELY(!block)) zg_allowance_discount(ticks);
    return block;
}

// What is passed on, where libc may have nothing left because of a limit of the program's.
static void *pass_or_serve(size_t size, size_t alignment, bool zero, enum zg_kind kind, const uint64_t *frame) {
    void *block = NULL;
    int saved = errno;
    if (!zg_allowance_passes(size)) {
        errno = ENOMEM;
        return NULL;
    }
    bool is_asked = !zg_door_reserve_is_next();
    if (is_asked && (block = pass_on(size, alignment, zero)) != NULL) return block;
    block = zg_door_allocate_from_reserve(size, alignment, kind, zero, frame);
    if (!block && !is_asked) block = pass_on(size, alignment, zero);
    if (block) errno = saved;
    return block;
}

// --- C ---------------------------------------------------------------------------------------------------------------

static void *aligned(enum zg_family function, size_t alignment, size_t size, const uint64_t *frame) {
    if (alignment > PTRDIFF_MAX) {
        errno = EINVAL;
        return NULL;
    }
    // glibc rounds an alignment that is no power of two up to the next one.
    uint64_t rounded = 16;
    while (rounded < alignment) rounded *= 2;
    if (ZG_UNLIKELY(zg_passing) && passes(function, frame[1])) {
        if (ZG_UNLIKELY(zg_passing_may_fail)) return pass_or_serve(size, rounded, false, zg_kind_aligned, frame);
        return zg_next.memalign(rounded, size);
    }
    return allocate(size, rounded, zg_kind_aligned, false, frame);
}

static ZG_NOINLINE void *guarded_malloc(size_t size) {
    void *block = allocate(size, 16, zg_kind_malloc, false, ZG_FRAME);
    ZG_KEEP(block);
    return block;
}

static ZG_NOINLINE void *passed_malloc(size_t size) {
    void *block = pass_or_serve(size, 16, false, zg_kind_malloc, ZG_FRAME);
    ZG_KEEP(block);
    return block;
}

static ZG_NOINLINE void *chosen_malloc(size_t size) {
    if (ZG_PASSES(malloc)) {
        if (ZG_UNLIKELY(zg_passing_may_fail)) ZG_MUST_TAIL return passed_malloc(size);
        ZG_MUST_TAIL return zg_next.malloc(size);
    }
    ZG_MUST_TAIL return guarded_malloc(size);
}

ZG_PUBLISH void *malloc(size_t size) {
    if (ZG_UNLIKELY(zg_passing)) ZG_MUST_TAIL return chosen_malloc(size);
    void *block = zg_door_malloc(size, ZG_FRAME);
    ZG_KEEP(block);
    return block;
}

static ZG_NOINLINE void *guarded_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = allocate(bytes, 16, zg_kind_malloc, true, ZG_FRAME);
    ZG_KEEP(block);
    return block;
}

static ZG_NOINLINE void *passed_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = pass_or_serve(bytes, 16, true, zg_kind_malloc, ZG_FRAME);
    ZG_KEEP(block);
    return block;
}

ZG_PUBLISH void *calloc(size_t count, size_t size) {
    if (ZG_PASSES(calloc)) {
        if (ZG_UNLIKELY(zg_passing_may_fail)) ZG_MUST_TAIL return passed_calloc(count, size);
        ZG_MUST_TAIL return zg_next.calloc(count, size);
    }
    ZG_MUST_TAIL return guarded_calloc(count, size);
}

// Of a block that libc cannot let grow the contents move to one of ours.
static void *resize_passed(void *block, size_t size, const uint64_t *frame) {
    if (!block) return pass_or_serve(size, 16, false, zg_kind_malloc, frame);
    void *resized = zg_next.realloc(block, size);
    if (resized || !size) return resized;
    resized = zg_door_allocate_from_reserve(size, 16, zg_kind_malloc, false, frame);
    if (!resized) return NULL;
    size_t usable = zg_next.usable_size(block);
    __builtin_memcpy(resized, block, usable < size ? usable : size);
    zg_next.free(block);
    return resized;
}

static void *resize(void *block, size_t size, const uint64_t *frame) {
    // Blocks of libc's stay there; what was nothing before may be chosen.
    if (block ? ZG_IS_PASSED(block) : ZG_PASSES(realloc)) {
        if (ZG_UNLIKELY(zg_passing_may_fail)) return resize_passed(block, size, frame);
        return zg_next.realloc(block, size);
    }
    if (!block) return allocate(size, 16, zg_kind_malloc, false, frame);
    if (size) return zg_door_reallocate(block, size, frame);
    release(block, zg_deallocator_realloc, ZG_ANY_SIZE, frame); // as glibc does: freed, NULL returned
    return NULL;
}

ZG_PUBLISH void *realloc(void *block, size_t size) {
    void *resized = resize(block, size, ZG_FRAME);
    ZG_KEEP(resized);
    return resized;
}

// As libc's does, it calls whichever realloc the program has: where that is another allocator's, which may well have no
// reallocarray, the block must be, too. Taken from the global offset table, so that neither a definition in the executable
// nor one that valgrind puts in place of ours is passed over.
ZG_PUBLISH void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *(*resizes)(void *, size_t) = realloc;
    ZG_KEEP(resizes);
    return resizes(block, bytes);
}

static ZG_NOINLINE void guarded_free(void *block) {
    release(block, zg_deallocator_free, ZG_ANY_SIZE, ZG_FRAME);
    ZG_KEEP_CALL();
}

static ZG_NOINLINE void chosen_free(void *block) {
    if (ZG_DROPS_PASSED(block)) ZG_MUST_TAIL return zg_next.free(block);
    ZG_MUST_TAIL return guarded_free(block);
}

ZG_PUBLISH void free(void *block) {
    if (ZG_UNLIKELY(zg_passing)) ZG_MUST_TAIL return chosen_free(block);
    zg_door_free_plainly(block, ZG_FRAME);
    ZG_KEEP_CALL();
}

// C23, 7.24.3.4 and 7.24.3.5; glibc has them since 2.43.
ZG_PUBLISH void free_sized(void *block, size_t size);
ZG_PUBLISH void free_sized(void *block, size_t size) {
    if (ZG_DROPS_PASSED(block)) return zg_next.free(block);
    release(block, zg_deallocator_free_sized, size, ZG_FRAME);
    ZG_KEEP_CALL();
}

ZG_PUBLISH void free_aligned_sized(void *block, size_t alignment, size_t size);
ZG_PUBLISH void free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment;
    if (ZG_DROPS_PASSED(block)) return zg_next.free(block);
    release(block, zg_deallocator_free_aligned_sized, size, ZG_FRAME);
    ZG_KEEP_CALL();
}

ZG_PUBLISH void *memalign(size_t alignment, size_t size) {
    void *block = aligned(zg_family_memalign, alignment, size, ZG_FRAME);
    ZG_KEEP(block);
    return block;
}

ZG_PUBLISH void *aligned_alloc(size_t alignment, size_t size) {
    void *block = aligned(zg_family_aligned_alloc, alignment, size, ZG_FRAME);
    ZG_KEEP(block);
    return block;
}

ZG_PUBLISH int posix_memalign(void **block, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) || !zg_is_power_of_two(alignment)) return EINVAL;
    int saved = errno;
    void *made = ZG_PASSES(posix_memalign)
                     ? ZG_UNLIKELY(zg_passing_may_fail)
                           ? pass_or_serve(size, alignment < 16 ? 16 : alignment, false, zg_kind_aligned, ZG_FRAME)
                           : zg_next.memalign(alignment, size)
                     : allocate(size, alignment < 16 ? 16 : alignment, zg_kind_aligned, false, ZG_FRAME);
    ZG_KEEP(made);
    errno = saved;
    if (!made) return ENOMEM;
    *block = made;
    return 0;
}

ZG_PUBLISH void *valloc(size_t size) {
    void *block = aligned(zg_family_valloc, ZG_PAGE_BYTES, size, ZG_FRAME);
    ZG_KEEP(block);
    return block;
}

ZG_PUBLISH void *pvalloc(size_t size) {
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = aligned(zg_family_pvalloc, ZG_PAGE_BYTES, zg_round_up(size, ZG_PAGE_BYTES), ZG_FRAME);
    ZG_KEEP(block);
    return block;
}

// Libc's own names for the same functions: allocators of executables and libraries that are no more than wrappers call
// these, and what one of their functions got from us another has to be able to give back.
ZG_PUBLISH void *__libc_malloc(size_t size) __attribute__((alias("malloc")));
ZG_PUBLISH void *__libc_calloc(size_t count, size_t size) __attribute__((alias("calloc")));
ZG_PUBLISH void *__libc_realloc(void *block, size_t size) __attribute__((alias("realloc")));
ZG_PUBLISH void *__libc_memalign(size_t alignment, size_t size) __attribute__((alias("memalign")));
ZG_PUBLISH void *__libc_valloc(size_t size) __attribute__((alias("valloc")));
ZG_PUBLISH void *__libc_pvalloc(size_t size) __attribute__((alias("pvalloc")));
ZG_PUBLISH void __libc_free(void *block) __attribute__((alias("free")));

ZG_PUBLISH size_t malloc_usable_size(void *block) {
    if (ZG_IS_PASSED(block)) return zg_next.usable_size(block);
    size_t size = zg_door_usable_size(block, ZG_FRAME);
    ZG_KEEP(size);
    return size;
}

// Free pages go back; the quarantine stays, or periodic callers would have none. The padding is ours to choose.
ZG_PUBLISH int malloc_trim(size_t pad) {
    if (zg_passing) {
        ZG_NEXT(int, malloc_trim, (size_t));
        if (next) return next(pad);
        return 0;
    }
    (void)pad;
    int trimmed = zg_door_trim(false, ZG_FRAME) != 0;
    ZG_KEEP(trimmed);
    return trimmed;
}

// As glibc 2.33 declares it (malloc.h: struct mallinfo2), for C libraries whose headers do not.
struct wide_mallinfo {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

ZG_PUBLISH struct wide_mallinfo zg_published_mallinfo2(void) __asm__("mallinfo2");
ZG_PUBLISH struct wide_mallinfo zg_published_mallinfo2(void) {
    if (zg_passing) {
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

// Tuning of another allocator: accepted, without effect.
ZG_PUBLISH int mallopt(int parameter, int value) {
    if (zg_passing) {
        ZG_NEXT(int, mallopt, (int, int));
        if (next) return next(parameter, value);
        return 1;
    }
    (void)parameter, (void)value;
    return 1;
}

// The two that print do so where the program asks for it, as libc's do.
ZG_PUBLISH void malloc_stats(void) {
    if (zg_passing) {
        ZG_NEXT(void, malloc_stats, (void));
        if (next) next();
        return;
    }
    struct wide_mallinfo info = zg_published_mallinfo2();
    fprintf(stderr, "system bytes     = %10zu\nin use bytes     = %10zu\n", info.arena, info.uordblks);
}

ZG_PUBLISH int malloc_info(int options, FILE *stream) {
    if (zg_passing) {
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

// --- C++ -------------------------------------------------------------------------------------------------------------

// A program that replaces some of the operators expects the others to call them, and one that has its own malloc or free
// expects all of them to call that. Then ours step aside for the C++ library's, which do. Asked once, at the first use of any
// operator.
static uint32_t replaced; // 1 no, 2 yes
static ZG_COLD bool ask_replaced(void) {
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
    zg_ready();
    uint32_t answer = zg_foreign_is_in_front() ? 2 : 1;
    if (zg_module_find_unwind((uint64_t)start, &ours))
        for (size_t i = 0; i < ZG_ARRAY_COUNT(names); i++) {
            void *found = zg_loader_first(names[i]);
            if (found && zg_module_find_unwind((uint64_t)found, &theirs) && theirs.start != ours.start) answer = 2;
        }
    if (answer == 2) zg_stats_degrade(zg_degradation_cxx_operators_replaced);
    __atomic_store_n(&replaced, answer, __ATOMIC_RELAXED);
    return answer == 2;
}
ZG_INLINE bool operators_are_replaced(void) {
    uint32_t answer = __atomic_load_n(&replaced, __ATOMIC_RELAXED);
    return ZG_UNLIKELY(answer != 1) && (answer == 2 || ask_replaced());
}

static void *pass_new(size_t size, size_t alignment, enum zg_kind kind, const uint64_t *frame) {
    if (ZG_UNLIKELY(zg_passing_may_fail)) return pass_or_serve(size, alignment, false, kind, frame);
    return alignment > 16 ? zg_next.memalign(alignment, size) : zg_next.malloc(size);
}

// Each operator: the guarded heap, and the C++ library's own definition where the program replaces operators or memory
// is short (it calls the new-handler and throws, which C cannot).
#define ZG_NEW(symbol, parameters, arguments, alignment, kind)                                                         \
    ZG_PUBLISH void *symbol parameters;                                                                                \
    ZG_PUBLISH void *symbol parameters {                                                                               \
        void *block = NULL;                                                                                            \
        if (ZG_LIKELY(!operators_are_replaced())) {                                                                    \
            if (ZG_PASSES(count)) block = pass_new(size, alignment, zg_kind_##kind, ZG_FRAME);                         \
            else block = allocate(size, alignment, zg_kind_##kind, false, ZG_FRAME);                                   \
            ZG_KEEP(block);                                                                                            \
            if (ZG_LIKELY(block != NULL)) return block;                                                                \
        }                                                                                                              \
        ZG_NEXT(void *, symbol, parameters);                                                                           \
        return next ? next arguments : block;                                                                          \
    }

#define ZG_DELETE(symbol, parameters, arguments, deallocator, told_size)                                               \
    ZG_PUBLISH void symbol parameters;                                                                                 \
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
        ZG_KEEP_CALL();                                                                                                \
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
ZG_PUBLISH int __sigaction(int number, const struct sigaction *action, struct sigaction *old);
ZG_PUBLISH int __sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    return zg_signals_action(number, action, old);
}

static uint64_t interrupting; // signals that siginterrupt wants to interrupt system calls

static __sighandler_t set_handler(int number, __sighandler_t handler, int flags) {
    if (handler == SIG_ERR || number < 1 || number >= NSIG) {
        errno = EINVAL;
        return SIG_ERR;
    }
    if (__atomic_load_n(&interrupting, __ATOMIC_RELAXED) >> (number - 1) & 1) flags &= ~SA_RESTART;
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
    if (!(flags & SA_NODEFER)) sigaddset(&action.sa_mask, number);
    return zg_signals_action(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

// signal() as BSD has it (glibc's default), and as System V had it.
ZG_PUBLISH __sighandler_t signal(int number, __sighandler_t handler) {
    return set_handler(number, handler, SA_RESTART);
}
ZG_PUBLISH __sighandler_t ssignal(int number, __sighandler_t handler) {
    return set_handler(number, handler, SA_RESTART);
}
ZG_PUBLISH __sighandler_t bsd_signal(int number, __sighandler_t handler);
ZG_PUBLISH __sighandler_t bsd_signal(int number, __sighandler_t handler) {
    return set_handler(number, handler, SA_RESTART);
}
ZG_PUBLISH __sighandler_t sysv_signal(int number, __sighandler_t handler) {
    return set_handler(number, handler, SA_RESETHAND | SA_NODEFER);
}
ZG_PUBLISH __sighandler_t __sysv_signal(int number, __sighandler_t handler);
ZG_PUBLISH __sighandler_t __sysv_signal(int number, __sighandler_t handler) {
    return set_handler(number, handler, SA_RESETHAND | SA_NODEFER);
}
ZG_PUBLISH int siginterrupt(int number, int interrupt) {
    struct sigaction action;
    if (zg_signals_action(number, NULL, &action) != 0) return -1;
    uint64_t bit = UINT64_C(1) << (number - 1);
    if (interrupt) __atomic_fetch_or(&interrupting, bit, __ATOMIC_RELAXED);
    else __atomic_fetch_and(&interrupting, ~bit, __ATOMIC_RELAXED);
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

// Threads on their way: not from the guarded heap, where only the program's own blocks are, and not from libc's, which a
// signal handler that frees may enter meanwhile.
static struct thread_start starts[256];

static struct thread_start *take_start(void) {
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(starts); i++)
        if (!__atomic_exchange_n(&starts[i].taken, 1, __ATOMIC_ACQUIRE)) return &starts[i];
    return NULL;
}

static void drop_start(struct thread_start *start) { __atomic_store_n(&start->taken, 0, __ATOMIC_RELEASE); }

static void register_thread(const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter(frame);
    if (thread) zg_thread_leave(thread);
}

static void *start_thread(void *pointer) {
    struct thread_start start = *(struct thread_start *)pointer;
    drop_start(pointer);
    register_thread(ZG_FRAME);
    if (start.hidden.signals) zg_signals_hide(start.hidden);
    ZG_MUST_TAIL return start.function(start.argument);
}

// Since glibc 2.32 a thread's mask may be one of its attributes.
static bool get_own_mask(const pthread_attr_t *attributes, sigset_t *mask) {
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
    if (zg_runtime_is_started()) zg_watch_before_thread();
    zg_thread_before_new();
    struct thread_start *start =
        zg_ready() && (zg_passing != zg_passing_sample || zg_signals_hidden().signals) ? take_start() : NULL;
    if (!start) return next(thread, attributes, function, argument);
    start->function = function;
    start->argument = argument;
    sigset_t own;
    bool has_own = attributes && get_own_mask(attributes, &own);
    start->hidden = has_own ? (struct zg_hidden_faults){0, 0} : zg_signals_hidden();
    int result = next(thread, attributes, start_thread, start);
    if (result != 0) drop_start(start);
    return result;
}

// --- forks -----------------------------------------------------------------------------------------------------------

// What pthread_atfork calls, which is a part of each library that uses it.
ZG_PUBLISH int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
ZG_PUBLISH int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library) {
    return zg_runtime_register_atfork(prepare, parent, child, library);
}

// --- the loader ------------------------------------------------------------------------------------------------------

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
