// The thread that watches memory. Cold.
//
// It lives only while it is worth its keep. It is made where the program makes one itself, or when the runtime is left and the
// whole calling stack is the program's: libc's pthread_create takes locks of the loader's, which calls malloc while it holds
// them.

#define _GNU_SOURCE
#include "process/watch.h"

#include <gnu/libc-version.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "findings/report.h"
#include "heap/quarantine.h"
#include "images/loader.h"
#include "images/module.h"
#include "limits/maintenance.h"
#include "platform/os.h"
#include "process/thread_entry.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/unwind.h"
#include "stacks/unwind_cfi.h"
#include "threads/single.h"

extern void *__libc_stack_end;

#define MS UINT64_C(1000000)
#define WATCHED_NS (250 * MS)    // between looks of the thread, while there is something to give back
#define QUIET_NS (2000 * MS)     // otherwise
#define IDLE_NS (2000 * MS)      // next to nothing was allocated or freed for so long: the process is idle
#define SHORT_IDLE_NS (400 * MS) // the same where memory was short in the last minute
#define SHORT_AGO_NS (60000 * MS)
#define WORTHLESS_NS (30000 * MS) // nothing to give back for so long: the thread ends
#define RETRY_NS (30000 * MS)     // after a thread could not be made
#define LEAVING_NS (200 * MS)     // that its end is waited for
enum { IDLE_CALLS = 128 };        // next to nothing
enum { STACK_BYTES = 256 << 10 };

// Signals that are not blocked in it: faults, which our own handler looks at. And those that libc keeps for itself: one of them
// asks all threads to change their user, while it holds the lock that pthread_create waits for.
#define NOT_BLOCKED (UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1))
#define OF_LIBC (UINT64_C(3) << 31)

static int pid; // of the process that may have a thread: a child of vfork shares this memory
// A part of libpthread before glibc 2.34.
extern int libcs_set_stack_size(pthread_attr_t *, size_t) ZG_SINCE_FIRST_GLIBC("pthread_attr_setstacksize");
typedef int set_mask_function(pthread_attr_t *, const sigset_t *);
static int (*next_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static uint64_t failed_ns; // when it could not be made
static int watcher;        // the thread's number, 0 while there is none

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

static bool was_short(uint64_t now) {
    return zg_load(&zg_maintenance.short_ns) && now - zg_load(&zg_maintenance.short_ns) < SHORT_AGO_NS;
}

static void give_back_when_idle(struct zg_thread *thread, struct watch *watch, uint64_t now) {
    uint64_t activity = zg_stats_get(zg_counter_allocations) + zg_stats_get(zg_counter_frees);
    if (activity - watch->activity > IDLE_CALLS) {
        watch->activity = activity;
        watch->active_ns = now;
        watch->relieved = false;
    } else if (!watch->relieved && now - watch->active_ns >= (was_short(now) ? SHORT_IDLE_NS : IDLE_NS)) {
        watch->relieved = true;
        if (zg_maintenance_backed_bytes() >= ZG_WORTH_RELIEVING) zg_maintenance_relieve(thread);
    }
}

// One round of the thread. How long it may sleep, 0 for the end.
static ZG_NOINLINE uint64_t watch_once(struct watch *watch) {
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (!thread) return 0;
    zg_maintenance_answer(thread);
    uint64_t now = zg_os_clock_ns(CLOCK_MONOTONIC);
    struct zg_process_state process;
    bool known = false;
    if (zg_maintenance_begin()) {
        known = zg_pressure_process(&process);
        zg_maintenance_take_look(thread, watch->reach);
        zg_maintenance_end();
    } else {
        process = (struct zg_process_state){.as_at_start = true};
        known = true;
    }
    give_back_when_idle(thread, watch, now);
    bool level = zg_stats_get(zg_counter_pressure_level) != 0;
    bool something = level || zg_quarantine_bytes() > ZG_WORTH_LOOKING ||
                     zg_maintenance_backed_bytes() > ZG_WORTH_LOOKING ||
                     zg_maintenance.course.cap != zg_config.quarantine_bytes;
    if (zg_maintenance_is_worth_a_thread() || level) watch->worth_ns = now;
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
    __atomic_store_n(&watcher, zg_os_tid(), __ATOMIC_RELAXED);
    zg_os_set_thread_name("zguard");
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (thread) {
        zg_stats_add(zg_counter_threads, (uint64_t)-1); // of the program's
        zg_thread_leave(thread);
    }
    while (!zg_maintenance_begin()) zg_os_yield();
    if (zg_pressure_process(&process) && leave_descriptors(&process)) watch.reach = zg_pressure_apart;
    zg_maintenance_end();
    watch.active_ns = watch.worth_ns = zg_os_clock_ns(CLOCK_MONOTONIC);
    __atomic_store_n(&zg_stats->has_maintenance_thread, 1, __ATOMIC_RELEASE);
    while (thread && !__atomic_load_n(&zg_maintenance.stopped, __ATOMIC_RELAXED)) {
        uint32_t request = __atomic_load_n(&zg_stats->request, __ATOMIC_ACQUIRE);
        uint64_t sleep_ns = watch_once(&watch);
        if (!sleep_ns) break;
        zg_os_futex_wait(&zg_stats->request, request, false, (int64_t)sleep_ns);
    }
    __atomic_store_n(&zg_stats->has_maintenance_thread, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&zg_maintenance.thread, zg_maintenance_no_thread, __ATOMIC_RELEASE);
    return NULL;
}

static void start_thread(void) {
    uint64_t now = zg_os_clock_ns(CLOCK_MONOTONIC);
    uint32_t expected = zg_maintenance_no_thread;
    if (failed_ns && now - failed_ns < RETRY_NS) return;
    if (!__atomic_compare_exchange_n(&zg_maintenance.thread, &expected, zg_maintenance_thread_starts, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
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
    // Before glibc 2.32 it has no mask of its own, and takes over what is blocked around the call below.
    set_mask_function *set_mask = (set_mask_function *)zg_module_function("pthread_attr_setsigmask_np");
    if (set_mask) set_mask(&attributes, &blocked);
    __atomic_store_n(&zg_maintenance.thread, zg_maintenance_thread_runs, __ATOMIC_RELEASE);
    if (libcs_set_stack_size) libcs_set_stack_size(&attributes, STACK_BYTES);
    // The program does not know of this call: a handler of its own may jump out of what it has called itself.
    uint64_t before;
    bool is_masked = zg_os_mask_signals(SIG_BLOCK, ~(NOT_BLOCKED | OF_LIBC), &before);
    int failure = next_pthread_create(&thread, &attributes, watch_memory, NULL);
    if (is_masked) zg_os_restore_signals(before);
    pthread_attr_destroy(&attributes);
    if (!failure) return;
    failed_ns = now;
    zg_stats_degrade(zg_degradation_no_pressure_thread);
    __atomic_store_n(&zg_maintenance.thread, zg_maintenance_no_thread, __ATOMIC_RELEASE);
}

// `by_program`: the program makes a thread itself, so that much is allowed.
static bool is_allowed(bool by_program) {
    struct zg_process_state process;
    if (zg_os_pid() != pid || !zg_maintenance_begin()) return false;
    bool known = zg_pressure_process(&process);
    zg_maintenance_end();
    if (!known) {
        zg_stats_degrade(zg_degradation_no_pressure_thread);
        return false;
    }
    return process.as_at_start && (by_program || !process.filtered || process.threads > 1);
}

void zg_watch_before_thread(void) {
    if (!zg_maintenance.on || zg_maintenance.stopped) return;
    // From now on nothing more can be opened on the slow path: what is to be kept is opened now.
    if (zg_is_single_threaded() && !zg_pressure_is_prepared() && zg_os_pid() == pid && zg_maintenance_begin()) {
        struct zg_readings readings;
        zg_pressure_read(&readings, zg_pressure_open);
        zg_maintenance_end();
    }
    if (zg_maintenance_may_have_thread() && zg_maintenance_is_worth_a_thread() && is_allowed(true)) start_thread();
}

void zg_watch_stop(void) {
    zg_maintenance_stop();
    uint64_t end = zg_os_clock_ns(CLOCK_MONOTONIC) + LEAVING_NS;
    uint32_t *asked = &zg_stats->request, nobody = 0;
    // It sleeps until the word is another one, but looks whether it is to stop whenever it is woken.
    while (__atomic_load_n(&zg_maintenance.thread, __ATOMIC_ACQUIRE) != zg_maintenance_no_thread ||
           (watcher && zg_os_has_thread(watcher))) {
        if (zg_os_clock_ns(CLOCK_MONOTONIC) > end) return;
        zg_os_futex_wake(asked, INT32_MAX, false);
        zg_os_futex_wait(&nobody, 0, true, (int64_t)MS / 4);
    }
    watcher = 0;
}

// --- the calling stack -----------------------------------------------------------------------------------------------

static bool is_in(const struct zg_module *module, uint64_t address) {
    return address >= module->start && address < module->end;
}

ZG_NOINLINE bool zg_watch_stack_is_plain(const uint64_t *frame) {
    struct zg_stack_bounds bounds = zg_thread_stack_bounds();
    struct zg_caller caller = {frame[1], zg_arch_caller_sp(frame), frame[0]};
    struct zg_walk walk;
    struct zg_module loader, libc, module;
    if (!zg_module_find_unwind((uint64_t)&__libc_stack_end, &loader)) return false;
    if (!zg_module_find_unwind((uint64_t)gnu_get_libc_version, &libc)) return false;
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

// The calling stack is the thread's own and was that much deeper once: to look at it and to create a thread takes more than
// every stack has.
static bool has_room(const uint64_t *frame) {
    enum { MOST_USED = 16 << 10 };
    struct zg_stack_bounds bounds = zg_thread_stack_bounds();
    uint64_t here = (uint64_t)frame;
    return here >= bounds.low && here < bounds.high && here - bounds.low >= MOST_USED;
}

static void try_start(const uint64_t *frame) {
    if (!zg_maintenance_may_have_thread() || !zg_maintenance_is_worth_a_thread()) return;
    if (!has_room(frame) || !zg_watch_stack_is_plain(frame) || !is_allowed(false)) return;
    start_thread();
}

// --- start, fork -----------------------------------------------------------------------------------------------------

void zg_watch_start(void) {
    if (!zg_maintenance.on) return;
    next_pthread_create =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))zg_loader_next("pthread_create");
    if (!next_pthread_create) zg_config.pressure_thread = false;
    pid = zg_os_pid();
    zg_thread_start_watcher = try_start;
}

void zg_watch_after_fork_in_child(void) {
    watcher = 0;
    if (zg_maintenance.on) pid = zg_os_pid();
}
