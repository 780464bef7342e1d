// Registers threads at their first call, hands over their blocks when they end, and runs deferred work. Slow path.

#define _GNU_SOURCE
#include "process/thread_entry.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "faults/handled.h"
#include "faults/signals.h"
#include "heap/foreign.h"
#include "heap/free.h"
#include "heap/quarantine.h"
#include "heap/watchpoints.h"
#include "images/loader.h"
#include "images/module.h"
#include "limits/allowance.h"
#include "limits/maintenance.h"
#include "limits/sample.h"
#include "pages/overread.h"
#include "pages/protect.h"
#include "platform/arch.h"
#include "platform/libc.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "process/ready.h"
#include "process/swift_check.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "threads/heartbeat.h"
#include "threads/single.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

void (*zg_thread_start_watcher)(const uint64_t *frame);

// ThreadSanitizer destroys its own thread state in the last round of destructors. Test builds with it use fewer rounds.
#ifndef ZG_DESTRUCTOR_ROUNDS
#define ZG_DESTRUCTOR_ROUNDS 3
#endif
enum { ALTERNATE_STACK_BYTES = 65536, SIGNAL_FRAME_BYTES = 16384, DESTRUCTOR_ROUNDS = ZG_DESTRUCTOR_ROUNDS };
enum { STATES_SHARE = 16, STATES_AT_ONCE = 64 };

static struct zg_lock list_lock;
static struct zg_thread *recycled; // states of ended threads
static uint32_t next_number = 1;

// A thread may still allocate and free after its destructor has run (other destructors, the loader, libc's cleanup).
// Such calls share one state under a lock.
static struct zg_thread *shared_state; // NULL until first used, or if the kernel refuses memory
static struct zg_lock shared_state_lock;

// Before glibc 2.34 these functions are in libpthread, which a single-threaded program may load only later.
extern int libcs_key_create(pthread_key_t *key, void (*destructor)(void *)) ZG_SINCE_FIRST_GLIBC("pthread_key_create");
extern int libcs_set_specific(pthread_key_t key, const void *value) ZG_SINCE_FIRST_GLIBC("pthread_setspecific");
static int (*set_specific)(pthread_key_t, const void *);

static pthread_key_t exit_key;
static bool has_exit_key;

// Returns the size of a thread's alternate signal stack. Adds room for the kernel's signal frame if it is large:
// arm64's SVE and SME registers may take 100 KiB.
static uint64_t alternate_stack_bytes(void) {
    static uint64_t bytes;
    if (!bytes) {
        uint64_t frame = getauxval(AT_MINSIGSTKSZ) + zg_arch_extra_signal_frame_bytes();
        bytes = ALTERNATE_STACK_BYTES + (frame > SIGNAL_FRAME_BYTES ? zg_round_up(frame, ZG_PAGE_BYTES) : 0);
    }
    return bytes;
}

// A thread's mapping: the state, a guard page, the alternate signal stack.
static uint64_t state_bytes(void) { return zg_round_up(sizeof(struct zg_thread), ZG_PAGE_BYTES); }
static uint64_t mapping_bytes(void) { return state_bytes() + ZG_PAGE_BYTES + alternate_stack_bytes(); }

// Installs the guard page behind the state. With few threads, the two more mappings that each guard page needs do not
// matter. With many threads, uses MADV_GUARD, which needs no mapping, or mappings while the mapping budget lasts.
static void guard_state(struct zg_thread *thread, bool is_one_of_few) {
    char *page = (char *)thread + state_bytes();
    if (is_one_of_few) {
        zg_os_protect(page, ZG_PAGE_BYTES);
        return;
    }
    if (zg_protection_now() == zg_protection_guards && zg_os_guard(page, ZG_PAGE_BYTES) == 0) return;
    if (zg_mappings_take(2) && zg_os_protect(page, ZG_PAGE_BYTES) != 0) zg_mappings_give(2);
}

// A stack of recycled states (Treiber, 1986). Any thread pushes without the lock; only the holder of the lock pops. So
// the first state cannot be popped and pushed again during a pop: there is no ABA problem.
static void put_back(struct zg_thread *thread) {
    struct zg_thread *first = __atomic_load_n(&recycled, __ATOMIC_RELAXED);
    do thread->next_recycled = first;
    while (!__atomic_compare_exchange_n(&recycled, &first, thread, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

static struct zg_thread *take_recycled(void) {
    if (!__atomic_load_n(&recycled, __ATOMIC_RELAXED)) return NULL;
    zg_lock_take(&list_lock);
    struct zg_thread *first = __atomic_load_n(&recycled, __ATOMIC_ACQUIRE);
    while (first && !__atomic_compare_exchange_n(&recycled, &first, first->next_recycled, false, __ATOMIC_ACQUIRE,
                                                 __ATOMIC_ACQUIRE)) {
    }
    zg_lock_drop(&list_lock);
    return first;
}

// Maps several states at once, a sixteenth of the number that exist, to save mappings: the kernel's limit on mappings
// must leave room for each thread's stack. All but one are put on the recycled list.
static struct zg_thread *make_states(void) {
    static uint64_t made;
    uint64_t known = __atomic_load_n(&made, __ATOMIC_RELAXED);
    uint64_t count = zg_max(1, zg_min(known / STATES_SHARE, STATES_AT_ONCE));
    char *start = zg_os_map_for_good(count * mapping_bytes());
    if (!start && count > 1) start = zg_os_map_for_good((count = 1) * mapping_bytes());
    if (!start) return NULL;
    __atomic_fetch_add(&made, count, __ATOMIC_RELAXED);
    for (uint64_t i = 0; i < count; i++) {
        struct zg_thread *thread = (void *)(start + i * mapping_bytes());
        guard_state(thread, known < STATES_SHARE);
        zg_lock_take(&list_lock);
        thread->next = zg_threads;
        __atomic_store_n(&zg_threads, thread, __ATOMIC_RELEASE);
        zg_lock_drop(&list_lock);
        if (i) put_back(thread);
    }
    return (void *)start;
}

// Takes a state in constant time. No thread waits for another thread's system calls.
static struct zg_thread *take_state(void) {
    struct zg_thread *thread = take_recycled();
    if (!thread) thread = make_states();
    if (!thread) {
        zg_stats_degrade(zg_degradation_no_table_memory);
        return NULL;
    }
    thread->frame = NULL;
    thread->number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);
    thread->number_in_records = (uint16_t)zg_min(thread->number, UINT16_MAX);
    // The previous owner may have left deferred frees.
    thread->deferred_work = thread->deferred_free_count ? zg_deferred_frees : 0;
    thread->destructor_rounds = 0;
    thread->faults_hidden = 0;
    thread->handled = NULL;
    thread->cxx_handled = thread->typed_throw_type = 0;
    thread->uncaught_stack = 0;
    zg_stack_cache_forget(&thread->stack_cache);
    thread->stack_diff.count = 0;
    if (zg_config.overhead) {
        __builtin_memset(thread->budget_left, 0, sizeof thread->budget_left);
        __builtin_memset(thread->budget_guarded, 0, sizeof thread->budget_guarded);
    }
    return thread;
}

// Returns the bounds of the calling thread's stack. The upper end is the thread control block, which glibc puts at the
// top of the stack, also if the program supplies the stack; the main thread's stack ends at the arguments.
// pthread_getattr_np is not used: it takes a lock that the allocating caller may already hold. The lower end of the
// main thread's stack follows from RLIMIT_STACK. Another thread's is unknown: `low` follows the lowest stack pointer
// seen, and the pages above it are probed once.
static struct zg_stack_bounds own_stack_bounds(void) {
    uint64_t here = (uint64_t)__builtin_frame_address(0), high = (uint64_t)__builtin_thread_pointer();
    if (zg_os_tid() == zg_os_pid()) {
        uint64_t limit = zg_os_limit(RLIMIT_STACK);
        high = (uint64_t)zg_libc_stack_end();
        if (limit > UINT64_C(1) << 30) limit = UINT64_C(1) << 30;
        return (struct zg_stack_bounds){high > limit ? high - limit : 0, high};
    }
    struct zg_stack_bounds bounds = {high, high};
    zg_thread_extend_stack(&bounds, here);
    return bounds;
}

static ZG_COLD struct zg_thread *register_thread(void) {
    zg_thread_self = &zg_thread_between;
    struct zg_thread *thread = take_state();
    if (thread) thread->in_runtime = 1;
    ZG_SIGNAL_FENCE();
    zg_thread_self = thread;
    if (!thread) return NULL;
    thread->tid = zg_os_tid();
    thread->stack = own_stack_bounds();
    thread->first_frame = thread->tid == zg_os_pid() ? thread->stack.high : (uint64_t)__builtin_frame_address(0);
    if (thread->tid != zg_os_pid()) zg_single_end();
    zg_stats_add(zg_counter_threads, 1);
    if (has_exit_key && set_specific(exit_key, thread) != 0) zg_stats_degrade(zg_degradation_no_thread_ends);
    if (zg_config.handle_signals) {
        zg_signals_add_stack((char *)thread + mapping_bytes() - alternate_stack_bytes(), alternate_stack_bytes());
        zg_signals_unblock_inherited();
    }
    return thread;
}

// Returns whether the call recorded in `thread` was abandoned by a jump (for example out of a handler for stack
// overflow). After a jump, the stack is shorter than during the abandoned call. A signal handler that interrupts the
// call has a lower frame, or runs on another stack. That stack may lie inside an older frame, but an unwind from it
// reaches the interrupted call. A coroutine's stack may lie inside an older frame, too; an unwind from it ends before
// the thread's outermost frames.
static bool was_abandoned(const struct zg_thread *thread, const uint64_t *frame) {
    enum { BELOW_END = 256 };
    uint64_t here = (uint64_t)frame, then = (uint64_t)thread->frame;
    if (thread == &zg_thread_between || thread == shared_state || then < thread->stack.low || here <= then ||
        here >= thread->stack.high)
        return false;
    struct zg_caller caller = {frame[1], zg_arch_caller_sp(frame), frame[0]};
    struct zg_interruption interruption;
    zg_unwind_find_signal(caller, thread->stack.low, then + 1, 0, &interruption);
    return !interruption.context && interruption.is_complete && interruption.end + BELOW_END >= thread->first_frame;
}

struct zg_thread *zg_thread_enter_slow(const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_self;
    if (!thread) {
        if (!zg_ready()) return NULL;
        thread = register_thread();
        if (thread) thread->frame = frame;
        return thread;
    }
    if (thread == &zg_thread_bypassing) return NULL;
    if (thread != &zg_thread_ended) {
        if (!was_abandoned(thread, frame)) return NULL; // the thread is in the runtime already
        zg_thread_end_access(thread);
        thread->frame = frame;
        return thread;
    }
    zg_thread_self = &zg_thread_between;
    zg_lock_take(&shared_state_lock);
    if (!shared_state) shared_state = zg_os_map_for_good(sizeof *shared_state);
    if (!shared_state) {
        zg_lock_drop(&shared_state_lock);
        zg_thread_self = &zg_thread_ended;
        zg_stats_degrade(zg_degradation_no_table_memory);
        return NULL;
    }
    shared_state->in_runtime = 1;
    shared_state->deferred_work = zg_deferred_unlock;
    shared_state->frame = frame;
    shared_state->tid = zg_os_tid();
    struct zg_stack_bounds bounds = own_stack_bounds();
    if (bounds.high != shared_state->stack.high) { // the cached stacks are of the thread that used the state before
        zg_stack_cache_forget(&shared_state->stack_cache);
        shared_state->stack_diff.count = 0;
    }
    shared_state->stack = bounds;
    ZG_SIGNAL_FENCE();
    zg_thread_self = shared_state;
    return shared_state;
}

void zg_thread_begin_bypass(const uint64_t *frame) {
    if (zg_bypassing_state) {
        zg_bypassing_state->bypass_depth++;
        return;
    }
    struct zg_thread *thread = zg_thread_enter(frame); // registers the thread and initializes the heap
    if (!thread) return;
    bool may = zg_foreign_is_libc_alone();
    bool is_own = thread != shared_state;
    zg_thread_leave(thread);
    if (!is_own || !may) return;
    thread->bypass_depth = 1;
    zg_bypassing_state = thread;
    ZG_SIGNAL_FENCE();
    zg_thread_self = &zg_thread_bypassing;
}

void zg_thread_end_bypass(void) {
    struct zg_thread *thread = zg_bypassing_state;
    if (!thread || --thread->bypass_depth) return;
    zg_thread_self = thread;
    ZG_SIGNAL_FENCE();
    zg_bypassing_state = NULL;
}

struct zg_thread *zg_thread_enter_from_bypass(const uint64_t *frame) {
    if (zg_thread_self != &zg_thread_bypassing) return NULL;
    struct zg_thread *thread = zg_bypassing_state;
    thread->frame = frame;
    ZG_SIGNAL_FENCE();
    thread->in_runtime = 1;
    ZG_SIGNAL_FENCE();
    zg_thread_self = thread;
    return thread;
}

void zg_thread_leave_to_bypass(struct zg_thread *thread) {
    zg_thread_leave(thread);
    ZG_SIGNAL_FENCE();
    zg_thread_self = &zg_thread_bypassing;
}

static void run_deferred_work(uint32_t deferred_work, const uint64_t *frame) {
    if (deferred_work & zg_deferred_swift_check) zg_swift_check();
    if (deferred_work & zg_deferred_handler_check && frame) zg_handled_check_left(frame);
    if (deferred_work & zg_deferred_thread_start && frame && zg_thread_start_watcher) zg_thread_start_watcher(frame);
    if (deferred_work & zg_deferred_abort) zg_signals_abort();
}

// Runs the periodic checks that follow slow allocations and frees.
static void run_periodic_checks(struct zg_thread *thread) {
    zg_maintenance_handle_request(thread);
    zg_maintenance_check(thread);
    zg_allowance_reread_after_growth();
    zg_overread_look();
    zg_watchpoints_look(thread);
    zg_signals_release_stack();
}

// A signal handler may push a block at any instruction. So a block is freed only if the count was lowered by
// compare-and-swap after the block's address was read.
static void free_deferred(struct zg_thread *thread) {
    for (uint32_t count; (count = __atomic_load_n(&thread->deferred_free_count, __ATOMIC_RELAXED)) != 0;) {
        void *address = thread->deferred_frees[count - 1];
        if (__atomic_compare_exchange_n(&thread->deferred_free_count, &count, count - 1, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            zg_free_entered(thread, (uint64_t)address, zg_deallocator_free, ZG_ANY_SIZE);
    }
}

void zg_thread_leave_slow(struct zg_thread *thread) {
    uint32_t deferred_work = 0, more;
    while ((more = __atomic_exchange_n(&thread->deferred_work, 0, __ATOMIC_RELAXED)) != 0) {
        deferred_work |= more;
        if (more & zg_deferred_frees) free_deferred(thread);
        if (more & zg_deferred_maintenance) run_periodic_checks(thread);
    }
    bool is_shared = thread == shared_state;
    const uint64_t *frame = is_shared ? NULL : thread->frame;
    if (is_shared) {
        zg_thread_self = &zg_thread_between;
        ZG_SIGNAL_FENCE();
        shared_state->in_runtime = 0;
        zg_lock_drop(&shared_state_lock);
        zg_thread_self = &zg_thread_ended;
    } else {
        thread->in_runtime = 0;
    }
    run_deferred_work(deferred_work, frame);
}

static void end_thread(void *context) {
    struct zg_thread *thread = context;
    if (thread != zg_thread_self) return;
    // Other destructors may free blocks afterwards: re-arm this destructor as long as pthread repeats them
    // (PTHREAD_DESTRUCTOR_ITERATIONS is 4).
    if (thread->destructor_rounds++ < DESTRUCTOR_ROUNDS && set_specific(exit_key, thread) == 0) return;
    thread->frame = NULL;
    ZG_SIGNAL_FENCE();
    thread->in_runtime = 1;
    ZG_SIGNAL_FENCE();
    zg_quarantine_flush(thread);
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        struct zg_magazine *magazine = &thread->magazines[class];
        if (magazine->count) zg_slab_release(class, magazine->slots, magazine->count);
        magazine->count = 0;
    }
    zg_heartbeat_thread_ends(thread);
    zg_handled_end(thread->handled);
    zg_sample_count_bypassed();
    zg_thread_flush_counters(thread);
    if (zg_config.handle_signals) zg_signals_remove_stack((char *)thread + mapping_bytes() - alternate_stack_bytes());
    uint32_t deferred_work = __atomic_exchange_n(&thread->deferred_work, 0, __ATOMIC_RELAXED);
    zg_thread_self = &zg_thread_ended;
    thread->in_runtime = 0;
    put_back(thread);
    run_deferred_work(deferred_work, NULL);
}

void zg_thread_init_keys(void) {
    int (*create)(pthread_key_t *, void (*)(void *)) = libcs_key_create;
    set_specific = libcs_set_specific;
    if (!create) {
        create = (int (*)(pthread_key_t *, void (*)(void *)))zg_module_function("pthread_key_create");
        set_specific = (int (*)(pthread_key_t, const void *))zg_module_function("pthread_setspecific");
        if (!create || !set_specific) return; // without libpthread no thread can be created
    }
    has_exit_key = create(&exit_key, end_thread) == 0;
    if (!has_exit_key) zg_stats_degrade(zg_degradation_no_thread_ends);
    // The main thread needs no destructor: either the process ends with it, or it calls pthread_exit and its blocks
    // stay where they are.
}

void zg_thread_before_new(void) {
    if (!set_specific) zg_thread_init_keys();
    zg_single_end();
}

void zg_thread_fork_prepare(bool alone) {
    if (!alone) {
        zg_lock_take(&list_lock);
        zg_lock_take(&shared_state_lock);
    }
    // A thread may fork after its destructor has run: its calls during the fork must not wait for shared_state_lock,
    // which it holds itself.
    if (zg_thread_self == &zg_thread_ended) zg_thread_self = &zg_thread_between;
}

void zg_thread_fork_done(bool child, bool alone) {
    if (zg_thread_self == &zg_thread_between) zg_thread_self = &zg_thread_ended;
    if (!child && alone) return;
    if (!child) {
        zg_lock_drop(&shared_state_lock);
        zg_lock_drop(&list_lock);
        return;
    }
    zg_lock_reset(&shared_state_lock);
    zg_lock_reset(&list_lock);
    if (shared_state) shared_state->in_runtime = 0;
    // The child lacks the parent's other threads. Their magazines may be half changed, so the slots in them stay lost.
    struct zg_thread *self = zg_thread_current_or_null();
    if (self) self->tid = zg_os_tid();
}

#ifdef ZG_CHECK_INVARIANTS
void zg_thread_visit(void (*visit)(const struct zg_thread *thread)) {
    for (const struct zg_thread *thread = zg_threads; thread; thread = thread->next) visit(thread);
    if (shared_state) visit(shared_state);
}
#endif
