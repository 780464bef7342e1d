// Holds evicted slots back from reuse. Retires a run once all of its slots are held; the end of a phase (retire.h)
// frees the held slots of the other runs.
// Slow path; takes the lock of retired runs.

#include "pages/retire.h"

#include "pages/page_time.h"
#include "pages/protect.h"
#include "pages/retire_class.h"
#include "pages/runs.h"
#include "platform/arch.h"
#include "platform/clock.h"
#include "settings/config.h"

// The thread that retires all freed slots (zg_retire_all_begin) and holds the lock meanwhile; NULL if none does.
static const struct zg_thread *forced_by;
static bool is_forced(void) { return __atomic_load_n(&forced_by, __ATOMIC_RELAXED) != NULL; }

// A run in which a phase holds slots: class and number in one word.
enum { NUMBER_BITS = 20 };
static uint32_t class_of(uint32_t touched) { return touched >> NUMBER_BITS; }
static uint32_t number_of(uint32_t touched) { return touched & ((1 << NUMBER_BITS) - 1); }
static struct zg_run *run_of(uint32_t touched) { return zg_run_by_number(class_of(touched), number_of(touched)); }

// The current phase. Invariant: the bit `touched` of a run is set if and only if phase.touched lists the run.
static struct {
    bool is_active; // also read without the lock
    // More runs were touched than `touched` has room for.
    bool is_full;
    uint64_t held_bytes, wait_until_ticks, backoff_ns;
    uint32_t touched_count, retired_count;
    uint32_t touched[ZG_POLICY_PHASE_RUNS_MOST];
} phase = {.backoff_ns = ZG_POLICY_BACKOFF_NS_LEAST};

// --- holding --------------------------------------------------------------------------------------------------------

static bool may_begin(void) {
    if (!zg_runs_may_be_retired() || !zg_config.isolated_overhead || zg_protection_now() == zg_protection_mprotect)
        return false;
    return zg_arch_ticks() >= zg_load(&phase.wait_until_ticks) && zg_page_time_allows(zg_page_retire, false);
}

bool zg_retire_enter(const struct zg_thread *thread) {
    if (__atomic_load_n(&forced_by, __ATOMIC_RELAXED) == thread) return zg_runs_may_be_retired();
    if (!__atomic_load_n(&phase.is_active, __ATOMIC_RELAXED) && !may_begin()) return false;
    ZG_ARCH_REACH_STACK(ZG_LOCKED_STACK_BYTES);
    if (!zg_lock_try(&zg_runs.lock)) return false;
    __atomic_store_n(&phase.is_active, true, __ATOMIC_RELAXED);
    return true;
}

// Not inlined: evictions seldom hold slots, and inlined code would leave the eviction code fewer registers (5 more
// instructions per malloc and free of 1,000 bytes).
ZG_NOINLINE bool zg_retire_hold(struct zg_slab *slab, uint32_t class, uint32_t index) {
    uint32_t number = zg_run_of(slab, index);
    struct zg_run *run = zg_run_make(class, number);
    if (!run) return false;
    if (!run->touched && !is_forced()) {
        if (phase.touched_count == ZG_POLICY_PHASE_RUNS_MOST) {
            phase.is_full = true;
            return false;
        }
        run->touched = 1;
        phase.touched[phase.touched_count++] = class << NUMBER_BITS | number;
    }
    zg_slot_set_state(&slab->blocks[index], zg_state_held);
    run->dead++;
    phase.held_bytes += slab->slot_bytes;
    return true;
}

// --- the end of a phase ---------------------------------------------------------------------------------------------

// Retires `count` adjacent complete runs. If they cannot be protected, their slots become free.
static void retire_complete(uint32_t class, uint32_t number, uint32_t count) {
    uint64_t ticks = zg_arch_ticks(), bytes = zg_runs_retire(class, number, number + UINT64_C(1) * count);
    zg_page_time_retired(ticks, bytes / ZG_PAGE_BYTES);
    phase.held_bytes -= zg_min(phase.held_bytes, (uint64_t)count << ZG_RUN_SHIFT);
    if (bytes) phase.retired_count += count;
    for (uint64_t i = number; i < number + UINT64_C(1) * count && !bytes; i++)
        zg_run_free_slots(class, i, zg_state_held);
}

// Counts the adjacent complete runs from index `from` of `touched` on, and clears their `touched` bits.
static uint32_t take_complete(uint32_t from) {
    uint32_t count = 0;
    for (uint32_t first = phase.touched[from]; from + count < phase.touched_count; count++) {
        uint32_t touched = phase.touched[from + count];
        if (touched != first + count || !zg_run_is_complete(class_of(touched), number_of(touched))) break;
        run_of(touched)->touched = 0;
    }
    return count;
}

// Retires the complete runs among the runs that the phase touched, adjacent runs in one call. Runs are listed in the
// order in which their first slots were evicted, which mostly is the order of their addresses. With `end`, frees the
// slots of the other runs. Under the lock.
static void settle(bool end) {
    uint32_t kept = 0;
    for (uint32_t i = 0, count; i < phase.touched_count; i += zg_max(count, 1)) {
        uint32_t touched = phase.touched[i];
        count = take_complete(i);
        if (count) {
            retire_complete(class_of(touched), number_of(touched), count);
        } else if (end) {
            run_of(touched)->touched = 0;
            zg_run_free_slots(class_of(touched), number_of(touched), zg_state_held);
        } else {
            phase.touched[kept++] = touched;
        }
    }
    phase.touched_count = kept;
}

// Ends the phase. The fraction of the touched runs that were retired decides how soon the next phase begins. Under the
// lock.
static void end_phase(uint32_t touched) {
    phase.backoff_ns = zg_policy_backoff_ns(phase.backoff_ns, phase.retired_count, touched);
    zg_store(&phase.wait_until_ticks, zg_arch_ticks() + zg_clock_ticks(phase.backoff_ns));
    __atomic_store_n(&phase.is_active, false, __ATOMIC_RELAXED);
    phase.is_full = false;
    phase.held_bytes = phase.retired_count = 0;
}

// Not inlined, for the reason given at zg_retire_hold.
ZG_NOINLINE void zg_retire_leave(const struct zg_thread *thread) {
    if (__atomic_load_n(&forced_by, __ATOMIC_RELAXED) == thread) return;
    bool end =
        phase.is_full || zg_policy_phase_is_full(phase.held_bytes) || !zg_page_time_allows(zg_page_retire, false);
    if (end || phase.held_bytes >= ZG_RUN_BYTES) {
        uint32_t touched = phase.touched_count + phase.retired_count;
        settle(end);
        if (end) end_phase(touched);
        zg_runs_keep_within_bounds();
    }
    zg_lock_drop(&zg_runs.lock);
}

bool zg_retire_wants_span(uint64_t bytes) {
    if (!zg_runs_may_be_retired()) return false;
    if (is_forced()) return true;
    if (!zg_config.isolated_overhead || !zg_page_time_allows(zg_page_retire, false)) return false;
    zg_page_time_retired(zg_arch_ticks(), bytes / ZG_PAGE_BYTES);
    return true;
}

// --- retiring all ---------------------------------------------------------------------------------------------------

// Holds the free slots of the class, as if they were evicted now. If memory for a run's record is lacking, the
// remaining slots stay free.
static void hold_free_slots(uint32_t class) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t slots[ZG_POLICY_RELEASED_AT_ONCE], count;
    while ((count = zg_slab_take_free(class, slots, ZG_POLICY_RELEASED_AT_ONCE)) != 0)
        for (uint32_t i = 0; i < count; i++) {
            if (zg_retire_hold(slab, class, slots[i])) continue;
            zg_slab_release(class, slots + i, count - i); // no memory for the run's record
            return;
        }
}

void zg_retire_all_begin(const struct zg_thread *thread) {
    zg_lock_take(&zg_runs.lock);
    // End the phase without retiring its runs: a run's count does not distinguish slots held by a phase from slots held
    // from now on.
    for (uint32_t i = 0; i < phase.touched_count; i++) run_of(phase.touched[i])->touched = 0;
    phase.touched_count = 0;
    __atomic_store_n(&phase.is_active, false, __ATOMIC_RELAXED);
    __atomic_store_n(&forced_by, thread, __ATOMIC_RELAXED);
    zg_runs.was_trimmed = true;
}

uint64_t zg_retire_all_end(void) {
    uint64_t given = 0;
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        hold_free_slots(class);
        given += zg_retire_class(class);
    }
    zg_runs_keep_within_bounds();
    __atomic_store_n(&forced_by, NULL, __ATOMIC_RELAXED);
    phase.held_bytes = phase.retired_count = 0;
    zg_lock_drop(&zg_runs.lock);
    return given;
}
