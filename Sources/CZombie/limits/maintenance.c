// Gives memory back when it gets short, in the steps of zg_pressure_next, and starts the thread that watches for it.
// Slow path: zg_maintenance_look, which takes no lock but a flag that others do not wait for. Cold: the rest.
//
// The thread lives only while it is worth its keep. It is made where the program makes one itself, or when the runtime is
// left and the whole calling stack is the program's: libc's pthread_create takes locks of the loader's, which calls malloc
// while it holds them.

#define _GNU_SOURCE
#include "limits/maintenance.h"

#include <pthread.h>
#include <signal.h>
#include <sys/single_threaded.h>
#include <time.h>

#include "findings/report.h"
#include "heap/heap.h"
#include "heap/quarantine.h"
#include "heap/slab.h"
#include "images/loader.h"
#include "images/module.h"
#include "limits/pressure.h"
#include "pages/protect.h"
#include "pages/retire.h"
#include "platform/os.h"
#include "process/thread.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/unwind.h"
#include "stacks/unwind_cfi.h"
#include "zombies/zombie.h"

extern void *__libc_stack_end;
extern void __libc_free(void *);

#define MS UINT64_C(1000000)
#define SLOW_LOOK_NS (100 * MS)   // between looks of the slow path
#define WATCHED_NS (250 * MS)     // between looks of the thread, while there is something to give back
#define QUIET_NS (2000 * MS)      // otherwise
#define IDLE_NS (2000 * MS)       // next to nothing was allocated or freed for so long: the process is idle
#define SHORT_IDLE_NS (400 * MS)  // the same where memory was short in the last minute
#define SHORT_AGO_NS (60000 * MS)
#define WORTHLESS_NS (30000 * MS) // nothing to give back for so long: the thread ends
#define RETRY_NS (30000 * MS)     // after a thread could not be made
// A process with less to give back is not looked at.
#define WORTH_LOOKING ((uint64_t)4 << 20)
#define WORTH_RELIEVING ((uint64_t)1 << 20)
enum { IDLE_CALLS = 128 }; // next to nothing
enum { STACK_BYTES = 256 << 10, TICKS_AT_FIRST = 1 << 20 };

static bool on, stopped;
static int pid; // of the process that may have a thread: a child of vfork shares this memory
static int (*next_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

enum { no_thread, thread_starting, thread_runs };
static uint32_t thread_state;
static uint64_t failed_ns; // when it could not be made

static uint32_t looking; // somebody reads and acts
static uint64_t looked_ticks, looked_ns, gate_ticks = TICKS_AT_FIRST;
static uint64_t looked_taken, growth_step = (uint64_t)16 << 20;
static uint64_t tried_ticks;
static uint64_t short_ns; // when memory was last short; 0: never
static struct zg_pressure_course course;
static uint64_t given; // of what held_bytes counts: given back already

// --- how much there is -----------------------------------------------------------------------------------------------

// Memory that was used once and is not in use: dead blocks and free ones, roughly.
static uint64_t held_bytes(void) {
    uint64_t used = 0, committed = 0, all = zg_stats_get(zg_counter_heap_committed_bytes);
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        const struct zg_slab *slab = &zg_slabs.slab[class];
        used += zg_load(&slab->used) * slab->slot_bytes;
        committed += zg_load(&slab->committed) * slab->slot_bytes;
    }
    used += all - zg_min(all, committed); // large blocks
    used -= zg_min(used, zg_retire_bytes());
    // Threads count in batches: the difference may be below zero for a while.
    uint64_t live = zg_stats_get(zg_counter_live_bytes);
    return (int64_t)live < 0 ? used : used - zg_min(used, live);
}

static uint64_t backed_bytes(void) {
    uint64_t held = held_bytes(), before = zg_load(&given);
    if (before > held) zg_store(&given, before = held); // taken again meanwhile
    return held - before;
}

static bool is_worth_a_thread(void) { return backed_bytes() > zg_config.pressure_thread_bytes; }

// --- looks and steps -------------------------------------------------------------------------------------------------

static void relieve(struct zg_thread *thread) {
    zg_heap_relieve(thread);
    zg_store(&given, held_bytes());
}

static void take_step(struct zg_thread *thread, enum zg_pressure_step step) {
    switch (step) {
    case zg_pressure_wait: return;
    case zg_pressure_relieve:
    case zg_pressure_release: relieve(thread); break;
    case zg_pressure_shrink:
        // What is over the cap is not evicted for reuse: it stays dead.
        zg_quarantine_set_cap(course.cap);
        if (zg_quarantine_bytes() > course.cap || backed_bytes() >= WORTH_RELIEVING) relieve(thread);
        break;
    case zg_pressure_raise: zg_quarantine_set_cap(course.cap); return;
    }
    zg_stats_add(zg_counter_pressure_steps, 1);
}

static void note_limits(const struct zg_readings *readings) {
    uint64_t tightest = readings->total ? readings->total : UINT64_MAX;
    if (readings->group.limit) tightest = zg_min(tightest, readings->group.limit);
    if (readings->address_space.limit) tightest = zg_min(tightest, readings->address_space.limit);
    if (readings->data.limit) tightest = zg_min(tightest, readings->data.limit);
    zg_store(&growth_step, zg_max(tightest / 16, WORTH_RELIEVING));
}

// Reads, and takes the step that follows. The caller has `looking`.
static void look(struct zg_thread *thread, enum zg_pressure_reach reach) {
    zg_zombie_note_time();
    struct zg_readings readings;
    zg_store(&looked_taken, zg_load(&zg_pressure_taken));
    zg_pressure_read(&readings, reach);
    note_limits(&readings);
    int level = zg_pressure_level(&readings);
    if (level) zg_store(&short_ns, zg_os_clock_ns(CLOCK_MONOTONIC));
    zg_stats_set(zg_counter_pressure_level, (uint64_t)level);
    take_step(thread, zg_pressure_next(&course, level, zg_config.quarantine_bytes, zg_quarantine_bytes(), backed_bytes(),
                                       zg_os_clock_ns(CLOCK_MONOTONIC_COARSE)));
}

static bool begin_look(void) { return !__atomic_exchange_n(&looking, 1, __ATOMIC_ACQUIRE); }
static void end_look(void) { __atomic_store_n(&looking, 0, __ATOMIC_RELEASE); }

static enum zg_pressure_reach own_reach(void) {
    return __libc_single_threaded ? zg_pressure_open : zg_pressure_kept;
}

void zg_maintenance_poll(struct zg_thread *thread) {
    if (!begin_look()) return;
    look(thread, own_reach());
    end_look();
}

// Is it time? The processor's clock says so roughly, and how fast it runs shows at each look.
static bool is_due(uint64_t ticks) {
    uint64_t now = zg_os_clock_ns(CLOCK_MONOTONIC_COARSE), before = zg_load(&looked_ns);
    uint64_t elapsed = now - before, elapsed_ticks = ticks - zg_load(&looked_ticks);
    if (elapsed < SLOW_LOOK_NS) {
        // Too early: wait until the time would be up at this rate, at most sixteen times as long.
        uint64_t gate = elapsed ? zg_min(elapsed_ticks * 16, elapsed_ticks / zg_max(elapsed / MS, 1) * (SLOW_LOOK_NS / MS))
                                : elapsed_ticks * 2;
        zg_store(&gate_ticks, zg_max(gate, elapsed_ticks + elapsed_ticks / 16));
        return false;
    }
    zg_store(&gate_ticks, elapsed_ticks / (elapsed / MS) * (SLOW_LOOK_NS / MS));
    zg_store(&looked_ticks, ticks);
    zg_store(&looked_ns, now);
    return true;
}

static void want_thread(struct zg_thread *thread, uint64_t ticks) {
    if (!is_worth_a_thread()) return;
    zg_store(&tried_ticks, ticks);
    thread->errands |= zg_errand_start_thread;
}

static bool may_have_thread(void) {
    return on && zg_config.pressure_thread && !stopped && __atomic_load_n(&thread_state, __ATOMIC_RELAXED) == no_thread;
}

void zg_maintenance_look(struct zg_thread *thread) {
    if (!on) return;
    uint64_t ticks = zg_arch_ticks();
    // As soon as a thread may be worth it: who freed all that may well be idle next.
    uint64_t idle = zg_stats_get(zg_counter_heap_committed_bytes) - zg_stats_get(zg_counter_live_bytes);
    if ((int64_t)idle > (int64_t)zg_config.pressure_thread_bytes && may_have_thread() &&
        ticks - zg_load(&tried_ticks) > zg_load(&gate_ticks) / 4)
        want_thread(thread, ticks);
    bool grown = zg_load(&zg_pressure_taken) - zg_load(&looked_taken) > zg_load(&growth_step);
    if (ZG_LIKELY(ticks - zg_load(&looked_ticks) < zg_load(&gate_ticks) && !grown)) return;
    if (!begin_look()) return;
    bool runs = __atomic_load_n(&thread_state, __ATOMIC_RELAXED) == thread_runs;
    if (grown || (!runs && is_due(ticks) &&
                  (held_bytes() >= WORTH_LOOKING || course.cap != zg_config.quarantine_bytes ||
                   zg_stats_get(zg_counter_pressure_level))))
        look(thread, own_reach());
    end_look();
}

// --- the thread ------------------------------------------------------------------------------------------------------

// With a table of its own the thread can open files without taking a number that the program's next one would have had.
// A filter of system calls may not know of this one.
static bool leave_descriptors(const struct zg_process_state *process) {
    int kept[ZG_PRESSURE_KEPT + 2], count = zg_pressure_descriptors(kept);
    if (process->filtered) return false;
    count += zg_report_descriptors(kept + count);
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && kept[j] < kept[j - 1]; j--) {
            int higher = kept[j - 1];
            kept[j - 1] = kept[j];
            kept[j] = higher;
        }
    return zg_os_leave_descriptors(kept, count);
}

struct watch {
    enum zg_pressure_reach reach;
    uint64_t activity, active_ns; // allocations and frees when the process was last seen busy, and when that was
    uint64_t worth_ns;            // when the thread was last worth it
    bool relieved;                // while the process is idle
};

static bool was_short(uint64_t now) { return zg_load(&short_ns) && now - zg_load(&short_ns) < SHORT_AGO_NS; }

static void give_back_when_idle(struct zg_thread *thread, struct watch *watch, uint64_t now) {
    uint64_t activity = zg_stats_get(zg_counter_allocations) + zg_stats_get(zg_counter_frees);
    if (activity - watch->activity > IDLE_CALLS) {
        watch->activity = activity;
        watch->active_ns = now;
        watch->relieved = false;
    } else if (!watch->relieved && now - watch->active_ns >= (was_short(now) ? SHORT_IDLE_NS : IDLE_NS)) {
        watch->relieved = true;
        if (backed_bytes() >= WORTH_RELIEVING) relieve(thread);
    }
}

// One round of the thread. How long it may sleep, 0 for the end.
static ZG_NOINLINE uint64_t watch_once(struct watch *watch) {
    struct zg_thread *thread = zg_thread_enter(__builtin_frame_address(0));
    if (!thread) return 0;
    zg_heap_answer_requests(thread);
    uint64_t now = zg_os_clock_ns(CLOCK_MONOTONIC);
    struct zg_process_state process;
    bool known = false;
    if (begin_look()) {
        known = zg_pressure_process(&process);
        look(thread, watch->reach);
        end_look();
    } else {
        process = (struct zg_process_state){.as_at_start = true};
        known = true;
    }
    give_back_when_idle(thread, watch, now);
    bool level = zg_stats_get(zg_counter_pressure_level) != 0;
    bool something = level || zg_quarantine_bytes() > WORTH_LOOKING || backed_bytes() > WORTH_LOOKING ||
                     course.cap != zg_config.quarantine_bytes;
    if (is_worth_a_thread() || level) watch->worth_ns = now;
    zg_thread_leave(thread);
    // Without its status nothing is known about the process; and where the main thread has left, the process ends with the
    // last of the others, which this one must not be (it still counts the main thread).
    if (!known || now - watch->worth_ns >= WORTHLESS_NS) return 0;
    if (process.main_ended) return process.threads <= 2 ? 0 : WATCHED_NS;
    return something || was_short(now) ? WATCHED_NS : QUIET_NS;
}

static void *watch_memory(void *unused) {
    (void)unused;
    struct watch watch = {.reach = zg_pressure_kept};
    struct zg_process_state process;
    zg_os_set_thread_name("zguard");
    struct zg_thread *thread = zg_thread_enter(__builtin_frame_address(0));
    if (thread) {
        zg_stats_add(zg_counter_threads, (uint64_t)-1); // of the program's
        zg_thread_leave(thread);
    }
    while (!begin_look()) zg_os_yield();
    if (zg_pressure_process(&process) && leave_descriptors(&process)) watch.reach = zg_pressure_apart;
    end_look();
    watch.active_ns = watch.worth_ns = zg_os_clock_ns(CLOCK_MONOTONIC);
    __atomic_store_n(&zg_stats->has_maintenance_thread, 1, __ATOMIC_RELEASE);
    while (thread && !__atomic_load_n(&stopped, __ATOMIC_RELAXED)) {
        uint32_t request = __atomic_load_n(&zg_stats->request, __ATOMIC_ACQUIRE);
        uint64_t sleep_ns = watch_once(&watch);
        if (!sleep_ns) break;
        zg_os_futex_wait(&zg_stats->request, request, false, (int64_t)sleep_ns);
    }
    __atomic_store_n(&zg_stats->has_maintenance_thread, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&thread_state, no_thread, __ATOMIC_RELEASE);
    return NULL;
}

static void start_thread(void) {
    uint64_t now = zg_os_clock_ns(CLOCK_MONOTONIC);
    uint32_t expected = no_thread;
    if (failed_ns && now - failed_ns < RETRY_NS) return;
    if (!__atomic_compare_exchange_n(&thread_state, &expected, thread_starting, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    // No signal of the program's is for this thread, but for faults, which our own handler looks at.
    sigset_t blocked;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setsigmask_np(&attributes, &blocked);
    __atomic_store_n(&thread_state, thread_runs, __ATOMIC_RELEASE);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    // The program does not know of this call: a handler of its own may jump out of what it has called itself.
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    int failure = next_pthread_create(&thread, &attributes, watch_memory, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (!failure) return;
    failed_ns = now;
    zg_stats_degrade(zg_degradation_no_pressure_thread);
    __atomic_store_n(&thread_state, no_thread, __ATOMIC_RELEASE);
}

// `by_program`: the program makes a thread itself, so that much is allowed.
static bool is_allowed(bool by_program) {
    struct zg_process_state process;
    if (zg_os_pid() != pid || !begin_look()) return false;
    bool known = zg_pressure_process(&process);
    end_look();
    if (!known) {
        zg_stats_degrade(zg_degradation_no_pressure_thread);
        return false;
    }
    return process.as_at_start && (by_program || !process.filtered || process.threads > 1);
}

void zg_maintenance_before_thread(void) {
    if (!on || stopped) return;
    // From now on nothing more can be opened on the slow path: what is to be kept is opened now.
    if (__libc_single_threaded && !zg_pressure_is_prepared() && zg_os_pid() == pid && begin_look()) {
        struct zg_readings readings;
        zg_pressure_read(&readings, zg_pressure_open);
        end_look();
    }
    if (may_have_thread() && is_worth_a_thread() && is_allowed(true)) start_thread();
}

// --- the calling stack -----------------------------------------------------------------------------------------------

static bool is_in(const struct zg_module *module, uint64_t address) {
    return address >= module->start && address < module->end;
}

bool zg_maintenance_stack_is_plain(const uint64_t *frame) {
    struct zg_stack_bounds bounds = zg_thread_stack_bounds();
    struct zg_caller caller = {frame[1], zg_arch_caller_sp(frame), frame[0]};
    struct zg_walk walk;
    struct zg_module loader, libc, module;
    if (!zg_module_find_unwind((uint64_t)&__libc_stack_end, &loader)) return false;
    if (!zg_module_find_unwind((uint64_t)__libc_free, &libc)) return false;
    if (caller.sp < bounds.low || caller.sp >= bounds.high) return false; // a coroutine's stack, or a handler's
    zg_unwind_fast(caller, &bounds, ZG_STACK_MAX_DEPTH, &walk);
    bool outermost = true; // so far libc alone
    for (int i = walk.count - 1; i >= 0; i--) {
        uint64_t pc = walk.frames[i] - 1;
        struct zg_cfi_row row;
        if (is_in(&loader, pc) || !zg_module_find_unwind(pc, &module)) return false;
        bool described = zg_cfi_find_row(&module, pc, &row);
        if (described && row.signal_frame) return false;
        if (i == walk.count - 1) {
            // _start, or libc's beginning of a thread: there the rules say that nobody called.
            if (!described || row.registers[row.return_register].how != zg_cfi_undefined) return false;
            continue;
        }
        if (!is_in(&libc, pc)) outermost = false;
        else if (!outermost) return false;
    }
    return walk.count > 1 && !outermost;
}

void zg_maintenance_try_start(const uint64_t *frame) {
    if (!may_have_thread() || !is_worth_a_thread()) return;
    if (!zg_maintenance_stack_is_plain(frame) || !is_allowed(false)) return;
    start_thread();
}

// --- start, fork, end ------------------------------------------------------------------------------------------------

void zg_maintenance_start(void) {
    course = (struct zg_pressure_course){.cap = zg_config.quarantine_bytes};
    if (!zg_config.pressure) return;
    zg_pressure_start();
    zg_protection_now(); // asked while no filter of the program's is in force
    next_pthread_create = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))zg_loader_next("pthread_create");
    if (!next_pthread_create) zg_config.pressure_thread = false;
    pid = zg_os_pid();
    looked_ticks = zg_arch_ticks();
    looked_ns = zg_os_clock_ns(CLOCK_MONOTONIC_COARSE);
    on = true;
}

void zg_maintenance_stop(void) {
    // Nobody waits for the thread, nor is it woken: most likely the process ends while it sleeps.
    __atomic_store_n(&stopped, true, __ATOMIC_RELAXED);
}

void zg_maintenance_after_fork_in_child(bool from_main_thread) {
    if (!on) return;
    zg_stats->has_maintenance_thread = 0;
    thread_state = no_thread;
    looking = 0;
    pid = zg_os_pid();
    zg_pressure_after_fork_in_child(from_main_thread);
}
