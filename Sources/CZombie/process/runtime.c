// Orders the steps at start, fork and exit. Cold.

#define _GNU_SOURCE
#include "process/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "blocks/slab.h"
#include "blocks/span.h"
#include "faults/collector.h"
#include "faults/crash.h"
#include "faults/exit_crash.h"
#include "faults/fault.h"
#include "faults/signals.h"
#include "findings/annotations.h"
#include "findings/found.h"
#include "findings/journal.h"
#include "findings/last_text.h"
#include "findings/report.h"
#include "heap/foreign.h"
#include "heap/free.h"
#include "heap/quarantine.h"
#include "heap/watchpoints.h"
#include "images/loader.h"
#include "images/module.h"
#include "include/zg_program.h"
#include "limits/allowance.h"
#include "limits/maintenance.h"
#include "limits/sample.h"
#include "pages/isolation.h"
#include "pages/overread.h"
#include "pages/page_time.h"
#include "pages/private_pages.h"
#include "pages/protect.h"
#include "pages/retire.h"
#include "pages/window.h"
#include "platform/clock.h"
#include "platform/filter.h"
#include "platform/libc.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "platform/text.h"
#include "process/advice.h"
#include "process/count_observer.h"
#include "process/hidden.h"
#include "process/locking.h"
#include "process/panics.h"
#include "process/ready.h"
#include "process/stderr_watch.h"
#include "process/swift_check.h"
#include "process/thread_entry.h"
#include "process/throws.h"
#include "process/maintenance_thread.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/bypass.h"
#include "settings/exemption.h"
#include "settings/run_directory.h"
#include "settings/stats.h"
#include "stacks/depot.h"
#include "stacks/pair_log.h"
#include "stacks/pairs.h"
#include "threads/heartbeat.h"
#include "threads/single.h"
#include "zombies/count_history.h"

static bool started;
static uint64_t started_ns;
// The process is a child of a process with several threads, and lacks all but one of these threads. A search for leaks
// would report the blocks to which only a missing thread refers.
static bool lacks_threads;

// Signature of glibc's __register_atfork. With `library` NULL, the handlers stay registered until the process ends.
// Handlers of a library (pthread_atfork) are dropped at exit together with its atexit handlers, before
// zg_runtime_finish; a thread that is forking at that moment would then leave the runtime's locks taken for good.
typedef int (*register_function)(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);

// glibc's lock on the list of all streams. fork takes it after the last handler. A thread that flushes all streams
// calls functions of the program (fopencookie) with this lock held, and these may allocate. The runtime therefore takes
// the lock before its own locks, as fork takes it before the locks of libc's malloc.

// State of the fork in progress. Per thread, because several threads may fork at once, one of them in a signal handler.
static __thread struct {
    bool is_prepared, is_locked, is_alone, has_streams, is_from_main_thread;
} forking __attribute__((tls_model("initial-exec")));

static void lock_for_fork(struct zg_thread *self, bool is_bare) {
    // In a process with one thread, take no locks: no other thread holds one (libc's fork assumes this, too), and the
    // child need not copy the pages of untouched locks. Not for a bare fork (entry/forks.h), which may come from a
    // thread that libc does not know.
    forking.is_alone = zg_is_single_threaded() && !is_bare;
    // A process with one thread needs no stream lock either. A bare fork leaves the streams alone.
    forking.has_streams = !zg_is_single_threaded() && !is_bare;
    if (forking.has_streams) zg_libc_lock_streams();
    if (self) {
        self->frame = NULL; // do not take the fork for an abandoned call (was_abandoned)
        ZG_SIGNAL_FENCE();
        self->in_runtime++;
    }
    zg_advice_fork_prepare(forking.is_alone);
    zg_thread_fork_prepare(forking.is_alone);
    if (forking.is_alone) {
        zg_signals_fork_hold();
        return zg_signals_fork_prepare();
    }
    zg_retire_lock();
    zg_quarantine_lock_all();
    zg_slab_lock_all();
    zg_private_lock();
    zg_window_lock();
    zg_span_lock();
    zg_span_table_lock();
    zg_depot_lock();
    zg_pair_log_lock();
    // Take the fault lock after all locks that a faulting thread may hold while it waits for the fault lock. The report
    // of a signal that ends the program takes these locks, so block this thread's signals until the locks are released.
    zg_signals_fork_hold();
    zg_fault_fork_prepare();
    zg_report_lock();
    zg_signals_fork_prepare();
}

// Takes all locks in rank order, so that the child finds no lock held by a thread that it lacks. Fork handlers of the
// program may wait for threads that allocate. So register_fork makes them run before this handler, and after
// after_fork_in_parent and after_fork_in_child.
static void prepare(bool is_bare) {
    forking.is_prepared = zg_ready();
    if (!forking.is_prepared) return;
    zg_clock_before_fork();
    // Register an unknown thread now, not while the locks are held.
    struct zg_thread *entered = zg_thread_enter(ZG_ARCH_FRAME());
    if (entered) {
        zg_thread_flush_counters(entered); // otherwise the counts would be added in both parent and child
        zg_thread_leave(entered);
    }
    struct zg_thread *self = zg_thread_current_or_null();
    forking.is_from_main_thread = zg_os_tid() == zg_os_pid();
    // A signal handler that forks may have interrupted its own thread with any lock held: take none.
    forking.is_locked = zg_thread_self != &zg_thread_between && (!self || !self->in_runtime);
    if (forking.is_locked) lock_for_fork(self, is_bare);
    zg_window_fork_prepare();
}

static void before_fork(void) { prepare(false); }

static void after_fork(bool child) {
    if (!forking.is_locked && !child) return;
    zg_signals_fork_done(child);
    if (forking.is_locked && forking.is_alone && !child) {
        zg_signals_fork_release();
        zg_thread_fork_done(false, true);
        struct zg_thread *self = zg_thread_current_or_null();
        if (self) self->in_runtime--;
        return;
    }
    zg_report_unlock(child);
    zg_fault_fork_done(child);
    if (forking.is_locked) zg_signals_fork_release();
    zg_pair_log_unlock(child);
    if (child) zg_depot_reset_lock();
    else zg_depot_unlock();
    zg_span_table_unlock(child);
    zg_span_unlock(child);
    zg_window_unlock(child);
    zg_private_unlock(child);
    zg_slab_unlock_all(child);
    zg_quarantine_unlock_all(child);
    zg_retire_unlock(child);
    zg_thread_fork_done(child, false);
    zg_advice_fork_done(child);
    if (!forking.is_locked) return;
    struct zg_thread *self = zg_thread_current_or_null();
    if (self) self->in_runtime--;
    if (!forking.has_streams) return;
    zg_libc_unlock_streams(child);
}

static void after_fork_in_parent(void) {
    if (!forking.is_prepared) return;
    zg_window_fork_done(false);
    after_fork(false);
}

static void after_fork_in_child(void) {
    if (!forking.is_prepared) return;
    zg_window_fork_done(true);   // before any code of the program can run
    zg_os_after_fork_in_child(); // before anything asks for the thread's tid in the child
    zg_advice_after_fork_in_child();
    after_fork(true);
    zg_module_after_fork_in_child();
    zg_locking_after_fork_in_child();
    if (!started) return;
    if (!forking.is_alone) lacks_threads = true;
    zg_os_lift_descriptor_limit();
    zg_stats_after_fork_in_child();
    zg_coverage_after_fork_in_child();
    zg_pair_after_fork_in_child();
    zg_clock_after_fork_in_child();
    zg_page_time_after_fork_in_child();
    zg_count_history_after_fork_in_child();
    zg_overread_after_fork_in_child();
    zg_watchpoints_after_fork_in_child();
    zg_sample_after_fork_in_child();
    zg_report_after_fork_in_child();
    zg_maintenance_after_fork_in_child(forking.is_from_main_thread);
    zg_os_restore_descriptor_limit();
    zg_maintenance_thread_after_fork_in_child();
    zg_heartbeat_after_fork_in_child();
}

void zg_runtime_before_bare_fork(void) { prepare(true); }
void zg_runtime_after_bare_fork(bool child) {
    if (child) after_fork_in_child();
    else after_fork_in_parent();
}

// Growing libc's list of handlers allocates, under a lock that fork takes after this runtime's handler. Enter the
// runtime, so that libc serves these allocations and no lock of the runtime is taken.
static int register_handlers(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library) {
    static register_function next;
    if (!next) next = (register_function)zg_loader_next("__register_atfork");
    if (!next) return ENOMEM;
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    int error = next(prepare, parent, child, library);
    if (thread) zg_thread_leave(thread);
    return error;
}

// Registers the fork handlers before all others, so that they run last before a fork and first after it.
static bool register_fork(void) {
    static struct zg_lock lock;
    static uint32_t state; // 0 not yet, 1 registered, 2 failed
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == 0) {
        zg_lock_take(&lock); // otherwise a second thread could register its own handlers first
        if (state == 0) {
            bool done = register_handlers(before_fork, after_fork_in_parent, after_fork_in_child, NULL) == 0;
            __atomic_store_n(&state, done ? 1 : 2, __ATOMIC_RELEASE);
        }
        zg_lock_drop(&lock);
    }
    return state == 1;
}

int zg_runtime_register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library) {
    register_fork();
    return register_handlers(prepare, parent, child, library);
}

// children=ignore: removes the runtime from LD_PRELOAD in place, before the program can pass it to a child.
static void forget_preload(void) {
    static const char name[] = "LD_PRELOAD=";
    for (char **entry = environ; entry && *entry; entry++) {
        uint64_t i = 0;
        while (name[i] && (*entry)[i] == name[i]) i++;
        if (name[i]) continue;
        char *value = *entry + i;
        value[zg_program_preload_without_library(value, value)] = 0;
    }
}

// Prints the warning in the first program of a run only.
static void warn_of_tags(void) {
    static const char line[] =
        "zguard: warning: no memory tagging on this processor or kernel: profile mte works as profile guard\n";
    bool is_told = zg_coverage_run_page && __atomic_load_n(&zg_coverage_run_page->programs, __ATOMIC_RELAXED) > 1;
    if (zg_stats_is_degraded(zg_degradation_no_memory_tags) && !is_told) zg_os_write(2, line, sizeof line - 1);
}

static void describe_process(void) {
    zg_stats->version = ZG_STATS_VERSION;
    zg_stats->bytes = sizeof *zg_stats;
    zg_stats->pid = (uint32_t)zg_os_pid();
    zg_stats->started_ns = started_ns;
    zg_string_copy(zg_stats->program, zg_module_executed_path(), sizeof zg_stats->program);
    zg_stats->layout.kept =
        (struct zg_layout_kept){(uint64_t)&zg_journal, (uint64_t)&zg_last_text, (uint64_t)zg_annotations};
    zg_stats->layout.own_ranges = (uint64_t)zg_os_own_ranges(&zg_stats->layout.own_range_count);
#if ZG_ARCH_SNAPSHOT
    zg_stats->layout.snapshot =
        (struct zg_layout_snapshot){(uint64_t)zg_arch_snapshot, (uint64_t)zg_arch_snapshot_words};
#endif
    zg_string_copy(zg_stats->runtime_version, ZG_VERSION, sizeof zg_stats->runtime_version);
    __atomic_store_n(&zg_stats->magic, ZG_STATS_MAGIC, __ATOMIC_RELEASE);
}

// Runs at exit, also if libc's err or error calls exit. on_exit is the only hook to which libc passes the status.
static void at_exit(int status, void *unused) {
    (void)unused;
    zg_fault_before_exit(ZG_ARCH_FRAME(), status);
    zg_exit_crash_report(ZG_ARCH_FRAME(), status);
}

static void start(void) {
    bool is_ready = zg_ready(); // first, because it looks for inherited seccomp filters
    started_ns = zg_os_clock_ns(0 /* CLOCK_REALTIME */);
    if (zg_is_exempt) {
        zg_report_open_coverage();
        if (zg_exemption_is_package_manager()) zg_hidden_start();
        if (zg_config.children != zg_children_follow) forget_preload();
        return;
    }
    if (!is_ready) {
        static const char no_space[] =
            "zguard: warning: no address space for the guarded heap: the program is not guarded\n";
        static const char other_pages[] =
            "zguard: warning: the kernel's page size is not 4 KiB: the program is not guarded\n";
        bool has_pages = zg_os_has_expected_pages();
        if (zg_ready_is_hopeless())
            zg_os_write(2, has_pages ? no_space : other_pages,
                        has_pages ? sizeof no_space - 1 : sizeof other_pages - 1);
        zg_run_count_unmapped();
        return;
    }
    // Under a seccomp filter, which may forbid the system calls of malloc's initialization, leave it to the program's
    // first allocation.
    if (!zg_filter_in_effect) zg_foreign_init_libc_heap();
    zg_thread_init_keys();
    zg_report_open();
    zg_report_open_coverage();
    warn_of_tags();
    describe_process();
    zg_foreign_report();
    if (zg_config.handle_signals) {
        zg_signals_start(zg_fault_handler);
        on_exit(at_exit, NULL);
    }
    if (!register_fork()) {
        zg_stats_degrade(zg_degradation_no_fork_handlers);
        // Without fork handlers, the child's thread record keeps the parent's thread id. The fault handler would then
        // take the child for a thread that uses another thread's TLS (bare clone).
        zg_protection_stop();
    }
    // Register the main thread even if it never allocates: its stack may overflow.
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (thread) zg_thread_leave(thread);
    zg_maintenance_start();
    zg_allowance_reread();
    zg_maintenance_thread_start();
    zg_count_observer_start();
    if (zg_config.handle_signals && zg_crash_is_wanted()) {
        zg_crash_start();
        zg_stderr_watch_start();
        zg_throws_start();
        zg_panics_start();
    }
    zg_collector_start();
    if (zg_config.collect & zg_collect_stalls && zg_coverage_run_page)
        zg_heartbeat_start(&zg_coverage_run_page->heartbeats);
    zg_swift_check_at_start();
    zg_sample_start();
    if (!zg_config.isolated_per_context && zg_bypass_mode != zg_bypass_sample)
        zg_coverage_declined(zg_coverage_reason_off);
    // Publish the page only when it is complete, because readers may map it at once.
    if (zg_config.stats) zg_stats_publish();
    if (zg_config.children != zg_children_follow) forget_preload();
}

void zg_runtime_start(void) {
    if (started) return;
    started = true;
    zg_os_lift_descriptor_limit();
    start();
    zg_os_restore_descriptor_limit();
}

bool zg_runtime_is_started(void) { return started && zg_ready(); }

static __attribute__((noinline)) void finish(void) {
    zg_maintenance_stop();
    zg_found_never_abort(true);
    zg_found_has_namer = NULL; // the process ends before its naming thread could report
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (!thread) return;
    zg_sample_count_bypassed();
    zg_thread_flush_counters(thread);
    if (zg_config.verify_at_exit) {
        zg_watchpoints_stop();
        zg_quarantine_verify_all("exit");
        zg_isolation_guard_pending();
        zg_free_verify_live("exit");
        zg_isolation_verify_live(thread, "exit");
    }
    zg_foreign_report_at_exit();
    zg_report_end();
    zg_heartbeat_thread_ends(thread);
    zg_stats_note_refusals();
    zg_thread_leave(thread);
}

void zg_runtime_finish(void) {
    if (!started || !zg_ready()) return;
    // Keep this frame small (finish is not inlined): the search would take stale words in it for references.
    if (!lacks_threads) zg_collector_search_leaks();
    finish();
}
