// Returns memory under pressure, in the steps of zg_pressure_next, and answers requests from outside.
// Slow path: zg_maintenance_check. It takes one lock, for which it waits at most WAIT_NS.

#define _GNU_SOURCE
#include "limits/maintenance.h"

#include <time.h>

#include "blocks/slab.h"
#include "heap/quarantine.h"
#include "heap/relief.h"
#include "pages/conditions.h"
#include "pages/protect.h"
#include "pages/retire.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "threads/single.h"
#include "zombies/zombie.h"

#define MS UINT64_C(1000000)
#define SLOW_LOOK_NS (100 * MS) // time between checks on the slow path
// While the heap takes new memory, idle memory is returned to the kernel if there is more than IDLE_LEAST and more than
// live bytes >> IDLE_SHIFT. Checked after every IDLE_STEP of new memory.
#define IDLE_STEP ((uint64_t)8 << 20)
#define IDLE_LEAST ((uint64_t)16 << 20)
#define IDLE_SHIFT 2
// A thread that takes new memory waits at most this long for another thread that is returning memory.
#define WAIT_NS (int64_t)(50 * MS)
enum { TICKS_AT_FIRST = 1 << 20 };
// Amount of new memory before the first check. The check takes up to 0.2 ms, and a process that takes less memory
// usually runs for only a few times 0.2 ms. The memory limit is not known before the check.
#define FIRST_STRIDE ((uint64_t)2 << 20)

struct zg_maintenance zg_maintenance;

static struct zg_lock check_lock; // held during a check and the pressure step that the check chooses
static uint64_t looked_ticks, looked_ns, gate_ticks = TICKS_AT_FIRST;
static uint64_t looked_taken, growth_step = FIRST_STRIDE, idle_taken;
static uint64_t tried_ticks;
static uint64_t returned; // part of held_bytes() whose memory has already been returned
static uint32_t answering;

// --- how much there is -----------------------------------------------------------------------------------------------

// Estimates the memory that was used before and is not in use now: freed blocks and free slots.
static uint64_t held_bytes(void) {
    uint64_t used = 0, committed = 0, all = zg_stats_get(zg_counter_heap_committed_bytes);
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        const struct zg_slab *slab = &zg_slabs.slab[class];
        used += zg_load(&slab->used) * slab->slot_bytes;
        committed += zg_load(&slab->committed) * slab->slot_bytes;
    }
    used += all - zg_min(all, committed); // add the memory of large blocks
    used -= zg_min(used, zg_retire_bytes());
    return used - zg_min(used, zg_stats_live_bytes());
}

uint64_t zg_maintenance_backed_bytes(void) {
    uint64_t held = held_bytes(), before = zg_load(&returned);
    if (before > held) zg_store(&returned, before = held); // the program used some of the memory again meanwhile
    return held - before;
}

bool zg_maintenance_is_worth_a_thread(void) { return zg_maintenance_backed_bytes() > zg_config.pressure_thread_bytes; }

// --- checks and steps ------------------------------------------------------------------------------------------------

void zg_maintenance_relieve(struct zg_thread *thread) {
    zg_relief_trim(thread, true);
    zg_store(&returned, held_bytes());
}

static void take_step(struct zg_thread *thread, enum zg_pressure_step step) {
    switch (step) {
    case zg_pressure_wait: return;
    case zg_pressure_relieve:
    case zg_pressure_release: zg_maintenance_relieve(thread); break;
    case zg_pressure_shrink:
        // Blocks above the cap are not evicted for reuse: their memory is returned and their addresses stay retired.
        zg_quarantine_set_cap(zg_maintenance.course.cap);
        if (zg_quarantine_bytes() > zg_maintenance.course.cap || zg_maintenance_backed_bytes() >= ZG_WORTH_RELIEVING)
            zg_maintenance_relieve(thread);
        break;
    case zg_pressure_raise: zg_quarantine_set_cap(zg_maintenance.course.cap); return;
    }
    zg_stats_add(zg_counter_pressure_steps, 1);
}

void zg_maintenance_check_if_due(struct zg_thread *thread, enum zg_pressure_reach reach) {
    zg_zombie_note_time();
    struct zg_readings readings;
    zg_store(&looked_taken, zg_load(&zg_pressure_taken));
    zg_pressure_read(&readings, reach);
    zg_store(&growth_step, zg_pressure_stride(&readings));
    zg_conditions_set_narrow(zg_pressure_is_narrow(&readings));
    int level = zg_pressure_level(&readings);
    if (level) zg_store(&zg_maintenance.short_ns, zg_os_clock_ns(CLOCK_MONOTONIC));
    zg_stats_set(zg_counter_pressure_level, (uint64_t)level);
    struct zg_pressure_state state = {.level = level,
                                      .cap = zg_config.quarantine_bytes,
                                      .quarantined = zg_quarantine_bytes(),
                                      .backed = zg_maintenance_backed_bytes(),
                                      .stride = growth_step,
                                      .now_ns = zg_os_clock_ns(CLOCK_MONOTONIC_COARSE)};
    take_step(thread, zg_pressure_next(&zg_maintenance.course, &state));
}

bool zg_maintenance_begin(void) { return zg_lock_try(&check_lock); }
void zg_maintenance_end(void) { zg_lock_drop(&check_lock); }

static enum zg_pressure_reach own_reach(void) {
    return zg_is_single_threaded() ? zg_pressure_all_files : zg_pressure_kept_files;
}

void zg_maintenance_check_now(struct zg_thread *thread) {
    if (!zg_maintenance_begin()) return;
    zg_maintenance_check_if_due(thread, own_reach());
    zg_maintenance_end();
}

// Returns true if a check is due by the coarse clock. Also sets the gate: the number of ticks since the last check
// before which this function is not called again.
static bool is_due(uint64_t ticks) {
    uint64_t now = zg_os_clock_ns(CLOCK_MONOTONIC_COARSE), before = zg_load(&looked_ns);
    uint64_t elapsed = now - before, elapsed_ticks = ticks - zg_load(&looked_ticks);
    if (elapsed < SLOW_LOOK_NS) {
        // Too early: reopen the gate at the time that the measured tick rate predicts, but after at most sixteen times
        // the elapsed ticks.
        uint64_t gate = elapsed
                            ? zg_min(elapsed_ticks * 16, elapsed_ticks / zg_max(elapsed / MS, 1) * (SLOW_LOOK_NS / MS))
                            : elapsed_ticks * 2;
        zg_store(&gate_ticks, zg_max(gate, elapsed_ticks + elapsed_ticks / 16));
        return false;
    }
    zg_store(&gate_ticks, elapsed_ticks / (elapsed / MS) * (SLOW_LOOK_NS / MS));
    zg_store(&looked_ticks, ticks);
    zg_store(&looked_ns, now);
    return true;
}

static void request_thread(struct zg_thread *thread, uint64_t ticks) {
    if (!zg_maintenance_is_worth_a_thread()) return;
    zg_store(&tried_ticks, ticks);
    zg_thread_request_deferred(thread, zg_deferred_thread_start);
}

bool zg_maintenance_may_have_thread(void) {
    return zg_maintenance.on && zg_config.pressure_thread && !zg_maintenance.stopped &&
           __atomic_load_n(&zg_maintenance.thread, __ATOMIC_RELAXED) == zg_maintenance_no_thread;
}

// Returns idle memory to the kernel before new memory is taken, if much memory is idle. Most likely the idle memory is
// in blocks of other sizes.
static void give_idle_back(struct zg_thread *thread) {
    zg_store(&idle_taken, zg_load(&zg_pressure_taken));
    if (zg_maintenance_backed_bytes() <= zg_max(IDLE_LEAST, zg_stats_live_bytes() >> IDLE_SHIFT)) return;
    zg_relief_trim(thread, false);
    zg_store(&returned, held_bytes());
}

// Begins a check. If `waits`, much memory was taken since the last check: wait while another thread returns memory,
// because allocation would otherwise outrun the checks.
static bool begin_check(bool waits) {
    if (zg_maintenance_begin()) return true;
    return waits && zg_lock_take_within(&check_lock, WAIT_NS);
}

void zg_maintenance_check(struct zg_thread *thread) {
    uint64_t idle_grown = zg_load(&zg_pressure_taken) - zg_load(&idle_taken);
    if (ZG_UNLIKELY(idle_grown > IDLE_STEP) && begin_check(idle_grown > 2 * IDLE_STEP)) {
        if (zg_load(&zg_pressure_taken) - idle_taken > IDLE_STEP) give_idle_back(thread);
        zg_maintenance_end();
    }
    if (!zg_maintenance.on) return;
    uint64_t ticks = zg_arch_ticks();
    // Check early whether to start a thread: a program that has just freed this much memory may be idle next.
    uint64_t idle = zg_stats_get(zg_counter_heap_committed_bytes) - zg_stats_get(zg_counter_live_bytes);
    if ((int64_t)idle > (int64_t)zg_config.pressure_thread_bytes && zg_maintenance_may_have_thread() &&
        ticks - zg_load(&tried_ticks) > zg_load(&gate_ticks) / 4)
        request_thread(thread, ticks);
    bool grown = zg_load(&zg_pressure_taken) - zg_load(&looked_taken) > zg_load(&growth_step);
    if (ZG_LIKELY(ticks - zg_load(&looked_ticks) < zg_load(&gate_ticks) && !grown)) return;
    if (!begin_check(grown)) return;
    grown = zg_load(&zg_pressure_taken) - zg_load(&looked_taken) > zg_load(&growth_step);
    bool runs = __atomic_load_n(&zg_maintenance.thread, __ATOMIC_RELAXED) == zg_maintenance_thread_runs;
    if (grown || (!runs && is_due(ticks) &&
                  (held_bytes() >= ZG_WORTH_LOOKING || zg_maintenance.course.cap != zg_config.quarantine_bytes ||
                   zg_conditions_is_narrow() || zg_stats_get(zg_counter_pressure_level))))
        zg_maintenance_check_if_due(thread, own_reach());
    zg_maintenance_end();
}

// --- requests --------------------------------------------------------------------------------------------------------

void zg_maintenance_handle_request(struct zg_thread *thread) {
    uint32_t request = __atomic_load_n(&zg_stats->request, __ATOMIC_ACQUIRE);
    uint32_t answered = __atomic_load_n(&zg_stats->answer, __ATOMIC_RELAXED);
    if (ZG_LIKELY(request == answered)) return;
    if (__atomic_exchange_n(&answering, 1, __ATOMIC_ACQUIRE)) return; // another thread is answering
    uint64_t value = zg_stats->request_kind == zg_request_trim ? zg_relief_trim(thread, true) : 0;
    zg_stats->answer_value = value;
    __atomic_store_n(&zg_stats->answer, request, __ATOMIC_RELEASE);
    zg_os_futex_wake(&zg_stats->answer, INT32_MAX, false);
    __atomic_store_n(&answering, 0, __ATOMIC_RELEASE);
}

// --- start, fork, end ------------------------------------------------------------------------------------------------

void zg_maintenance_start(void) {
    zg_maintenance.course = (struct zg_pressure_course){.cap = zg_config.quarantine_bytes};
    zg_protection_now(); // chooses how pages are protected, before the program installs a seccomp filter
    if (!zg_config.pressure) return;
    zg_pressure_start();
    looked_ticks = zg_arch_ticks();
    looked_ns = zg_os_clock_ns(CLOCK_MONOTONIC_COARSE);
    zg_maintenance.on = true;
}

void zg_maintenance_stop(void) {
    // The maintenance thread is neither awaited nor woken: most likely it sleeps while the process exits.
    __atomic_store_n(&zg_maintenance.stopped, true, __ATOMIC_RELAXED);
}

void zg_maintenance_after_fork_in_child(bool from_main_thread) {
    if (answering) answering = 0;
    zg_lock_reset(&check_lock);
    if (!zg_maintenance.on) return;
    zg_stats->has_maintenance_thread = 0;
    zg_maintenance.thread = zg_maintenance_no_thread;
    zg_pressure_after_fork_in_child(from_main_thread);
}
