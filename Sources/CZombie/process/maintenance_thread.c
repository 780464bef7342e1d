// The runtime's own thread: watches memory pressure and returns memory. Cold.
//
// The thread runs only while there is enough memory to return. It is started just before the program creates a thread,
// or when a call leaves the runtime and the calling stack contains only the program. In other calls, a start could
// deadlock: libc's pthread_create takes loader locks, and the loader calls malloc while it holds them.

#define _GNU_SOURCE
#include "process/maintenance_thread.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "findings/report.h"
#include "heap/quarantine.h"
#include "images/loader.h"
#include "images/module.h"
#include "limits/maintenance.h"
#include "platform/libc.h"
#include "platform/os.h"
#include "process/thread_entry.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/unwind.h"
#include "stacks/unwind_cfi.h"
#include "threads/single.h"

#define MS UINT64_C(1000000)
#define WATCHED_NS (250 * MS)    // time between two checks while there is memory to return
#define QUIET_NS (2000 * MS)     // time between two checks otherwise
#define IDLE_NS (2000 * MS)      // the process is idle after this time with at most IDLE_CALLS allocations and frees
#define SHORT_IDLE_NS (400 * MS) // IDLE_NS if memory was short within SHORT_AGO_NS
#define SHORT_AGO_NS (60000 * MS)
#define EXIT_AFTER_NS (30000 * MS) // the thread exits after this time without enough memory to return
#define RETRY_NS (30000 * MS)      // no new attempt for this time after pthread_create failed
#define STOP_WAIT_NS (200 * MS)    // zg_maintenance_thread_stop waits this long for the thread to exit
enum { IDLE_CALLS = 128 };
enum { STACK_BYTES = 256 << 10 };

// NOT_BLOCKED: faults stay unblocked in the runtime's thread, because the runtime's own handler resolves them. OF_LIBC:
// the two signals that glibc reserves. They stay unblocked around pthread_create: glibc's setuid holds a lock that
// pthread_create takes, until every thread has handled one of these signals.
#define NOT_BLOCKED (UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1))
#define OF_LIBC (UINT64_C(3) << 31)

static int pid; // the process that may run the thread; a vfork child shares this memory but has another pid
// Before glibc 2.34 this function is in libpthread, which may not be loaded.
extern int libcs_set_stack_size(pthread_attr_t *, size_t) ZG_SINCE_FIRST_GLIBC("pthread_attr_setstacksize");
typedef int set_mask_function(pthread_attr_t *, const sigset_t *);
static int (*next_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static uint64_t create_failed_ns; // time of the last failed pthread_create, 0 if none
static int watcher;               // tid of the runtime's thread that was started last; 0 if none

// --- the thread ------------------------------------------------------------------------------------------------------

// Unshares the descriptor table, so that the thread can open files without taking a descriptor number that the
// program's next open would get. Returns false, with the table still shared, under a seccomp filter, which may not
// allow close_range.
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
    // `activity`: allocations + frees when the process was last seen active, at `active_ns`
    uint64_t activity, active_ns;
    uint64_t last_useful_ns; // last time there was enough memory to return
    bool relieved;           // memory was returned since the process became idle
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

// Runs one round. Returns how many nanoseconds to sleep, 0 to exit the thread.
static ZG_NOINLINE uint64_t watch_once(struct watch *watch) {
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (!thread) return 0;
    zg_maintenance_handle_request(thread);
    uint64_t now = zg_os_clock_ns(CLOCK_MONOTONIC);
    struct zg_process_state process;
    bool known = false;
    if (zg_maintenance_begin()) {
        known = zg_pressure_process(&process);
        zg_maintenance_check_if_due(thread, watch->reach);
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
    if (zg_maintenance_is_worth_a_thread() || level) watch->last_useful_ns = now;
    zg_thread_leave(thread);
    // Exit if /proc/self/status cannot be read. If the main thread has called pthread_exit, the process ends with its
    // last other thread: exit if only this thread is left (`threads` still counts the main thread).
    if (!known || now - watch->last_useful_ns >= EXIT_AFTER_NS) return 0;
    if (process.main_ended) return process.threads <= 2 ? 0 : WATCHED_NS;
    return something || was_short(now) ? WATCHED_NS : QUIET_NS;
}

static void *watch_memory(void *unused) {
    (void)unused;
    struct watch watch = {.reach = zg_pressure_kept_files};
    struct zg_process_state process;
    __atomic_store_n(&watcher, zg_os_tid(), __ATOMIC_RELAXED);
    zg_os_set_thread_name("zguard");
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (thread) {
        zg_stats_add(zg_counter_threads, (uint64_t)-1); // do not count this thread as one of the program's
        zg_thread_leave(thread);
    }
    while (!zg_maintenance_begin()) zg_os_yield();
    if (zg_pressure_process(&process) && leave_descriptors(&process)) watch.reach = zg_pressure_own_table;
    zg_maintenance_end();
    watch.active_ns = watch.last_useful_ns = zg_os_clock_ns(CLOCK_MONOTONIC);
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
    if (create_failed_ns && now - create_failed_ns < RETRY_NS) return;
    if (!__atomic_compare_exchange_n(&zg_maintenance.thread, &expected, zg_maintenance_thread_starts, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    // Block all signals but the two faults, which the runtime's own handler resolves.
    sigset_t blocked;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    // Before glibc 2.32 attributes have no signal mask: the thread inherits the mask that is set around the call below.
    set_mask_function *set_mask = (set_mask_function *)zg_module_function("pthread_attr_setsigmask_np");
    if (set_mask) set_mask(&attributes, &blocked);
    __atomic_store_n(&zg_maintenance.thread, zg_maintenance_thread_runs, __ATOMIC_RELEASE);
    if (libcs_set_stack_size) libcs_set_stack_size(&attributes, STACK_BYTES);
    // Block signals around pthread_create: a signal handler of the program could jump out of this call, which the
    // program has not made and does not know of.
    uint64_t before;
    bool is_masked = zg_os_mask_signals(SIG_BLOCK, ~(NOT_BLOCKED | OF_LIBC), &before);
    int failure = next_pthread_create(&thread, &attributes, watch_memory, NULL);
    if (is_masked) zg_os_restore_signals(before);
    pthread_attr_destroy(&attributes);
    if (!failure) return;
    create_failed_ns = now;
    zg_stats_degrade(zg_degradation_no_pressure_thread);
    __atomic_store_n(&zg_maintenance.thread, zg_maintenance_no_thread, __ATOMIC_RELEASE);
}

// Returns true if creating a thread is allowed. `by_program`: the program itself creates a thread now, so its seccomp
// filter allows that.
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

void zg_maintenance_thread_before_new(void) {
    if (!zg_maintenance.on || zg_maintenance.stopped) return;
    // Once the process has a second thread, the slow path must not open files. Open now the files that it will read.
    if (zg_is_single_threaded() && !zg_pressure_is_prepared() && zg_os_pid() == pid && zg_maintenance_begin()) {
        struct zg_readings readings;
        zg_pressure_read(&readings, zg_pressure_all_files);
        zg_maintenance_end();
    }
    if (zg_maintenance_may_have_thread() && zg_maintenance_is_worth_a_thread() && is_allowed(true)) start_thread();
}

void zg_maintenance_thread_stop(void) {
    zg_maintenance_stop();
    uint64_t end = zg_os_clock_ns(CLOCK_MONOTONIC) + STOP_WAIT_NS;
    uint32_t *asked = &zg_stats->request, nobody = 0;
    // The thread sleeps on this futex word until the word changes. A wake-up without a change also makes the thread
    // check `stopped`.
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

ZG_NOINLINE bool zg_maintenance_thread_stack_is_program_only(const uint64_t *frame) {
    struct zg_stack_bounds bounds = zg_thread_stack_bounds();
    struct zg_caller caller = {frame[1], zg_arch_caller_sp(frame), frame[0]};
    struct zg_walk walk;
    struct zg_module loader, libc, module;
    if (!zg_module_find_unwind(zg_libc_loader_address(), &loader)) return false;
    if (!zg_module_find_unwind(zg_libc_address(), &libc)) return false;
    if (caller.sp < bounds.low || caller.sp >= bounds.high) return false; // a coroutine's or a signal handler's stack
    zg_unwind_fast(caller, &bounds, ZG_STACK_MAX_DEPTH, &walk);
    bool outermost = true; // only libc frames so far
    for (int i = walk.count - 1; i >= 0; i--) {
        uint64_t pc = walk.frames[i] - 1;
        struct zg_cfi_row row;
        if (is_in(&loader, pc) || !zg_module_find_unwind(pc, &module)) return false;
        bool described = zg_cfi_find_row(&module, pc, &row);
        if (described && row.signal_frame) return false;
        if (i == walk.count - 1) {
            // The outermost frame is _start or libc's thread start: their CFI marks the return address as undefined.
            if (!described || row.registers[row.return_register].how != zg_cfi_undefined) return false;
            continue;
        }
        if (!is_in(&libc, pc)) outermost = false;
        else if (!outermost) return false;
    }
    return walk.count > 1 && !outermost;
}

// Returns true if the thread runs on its own stack and at least MOST_USED bytes below `frame` are usable: the thread
// has used them before, or they lie within the main thread's RLIMIT_STACK. The stack walk and pthread_create may need
// more than the rest of a small stack.
static bool has_room(const uint64_t *frame) {
    enum { MOST_USED = 16 << 10 };
    struct zg_stack_bounds bounds = zg_thread_stack_bounds();
    uint64_t here = (uint64_t)frame;
    return here >= bounds.low && here < bounds.high && here - bounds.low >= MOST_USED;
}

static void try_start(const uint64_t *frame) {
    if (!zg_maintenance_may_have_thread() || !zg_maintenance_is_worth_a_thread()) return;
    if (!has_room(frame) || !zg_maintenance_thread_stack_is_program_only(frame) || !is_allowed(false)) return;
    start_thread();
}

// --- start, fork -----------------------------------------------------------------------------------------------------

void zg_maintenance_thread_start(void) {
    if (!zg_maintenance.on) return;
    next_pthread_create =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))zg_loader_next("pthread_create");
    if (!next_pthread_create) zg_config.pressure_thread = false;
    pid = zg_os_pid();
    zg_thread_start_watcher = try_start;
}

void zg_maintenance_thread_after_fork_in_child(void) {
    watcher = 0;
    if (zg_maintenance.on) pid = zg_os_pid();
}
