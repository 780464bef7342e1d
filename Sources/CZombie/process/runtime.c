// Order of things at the start, at fork and at the end. Cold.

#define _GNU_SOURCE
#include "process/runtime.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "findings/fault.h"
#include "findings/finding.h"
#include "findings/report.h"
#include "findings/signals.h"
#include "heap/foreign.h"
#include "heap/heap.h"
#include "heap/lookup.h"
#include "heap/quarantine.h"
#include "heap/slab.h"
#include "heap/span.h"
#include "images/module.h"
#include "limits/budget.h"
#include "limits/maintenance.h"
#include "limits/sample.h"
#include "pages/overread.h"
#include "pages/protect.h"
#include "pages/retire.h"
#include "platform/os.h"
#include "platform/text.h"
#include "process/thread.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/depot.h"
#include "zombies/swift_check.h"
#include "zombies/zombie.h"

enum { not_started, starting, ready, failed };
static uint32_t heap_state;
static bool started;
static uint64_t started_ns;

// Regions as large as the address space allows; a limit on it (ulimit -v) leaves most of it to the program.
static bool reserve_heap(void) {
    uint64_t limit = zg_os_limit(RLIMIT_AS);
    bool limited = limit != RLIM_INFINITY;
    if (limited) zg_stats_degrade(zg_degradation_small_address_space);
    for (uint32_t shift = 36; shift >= 20; shift -= 2) {
        // Slots, their records and free lists come to about 45 regions.
        if (limited && (UINT64_C(45) << shift) > limit / 8) continue;
        if (!zg_slab_init(shift)) continue;
        if (shift < 36) zg_stats_degrade(zg_degradation_small_address_space);
        uint64_t area = limited ? limit / 8 : UINT64_C(64) << shift, fence = limited ? limit / 16 : UINT64_C(16) << shift;
        if (zg_span_init(area & ~(ZG_UNIT_BYTES - 1), fence & ~(ZG_PAGE_BYTES - 1))) return true;
        return zg_span_init(UINT64_C(4) << shift, UINT64_C(1) << shift);
    }
    return false;
}

static void initialise(void) {
    zg_config_init();
    zg_module_init(zg_config.find_object);
    zg_foreign_init();
    if (!zg_module_has_find_object()) zg_stats_degrade(zg_degradation_no_find_object);
    if (!zg_os_can_read_memory()) zg_stats_degrade(zg_degradation_no_safe_read);
    zg_budget_init();
    zg_overread_init();
    zg_quarantine_init();
    uint64_t limit = zg_os_limit(RLIMIT_AS);
    bool done = zg_depot_init(limit == RLIM_INFINITY ? UINT64_MAX : limit / 32) && reserve_heap();
    if (done) zg_lookup_init();
    if (done) zg_zombie_init(zg_config.zombies, zg_config.on_finding == zg_on_finding_continue);
    uint64_t nodes;
    zg_stats->layout.nodes_base = (uint64_t)zg_depot_nodes(&nodes);
    zg_stats->layout.node_bytes = sizeof(struct zg_depot_node);
    zg_stats->layout.nodes_used = nodes;
    if (!done) zg_stats_degrade(zg_degradation_heap_exhausted);
    __atomic_store_n(&heap_state, done ? ready : failed, __ATOMIC_RELEASE);
}

bool zg_runtime_is_ready(void) {
    uint32_t state = __atomic_load_n(&heap_state, __ATOMIC_ACQUIRE);
    if (ZG_LIKELY(state == ready)) return true;
    // No second thread exists before the first allocation; a nested call during the start is served by libc.
    uint32_t expected = not_started;
    if (!__atomic_compare_exchange_n(&heap_state, &expected, starting, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return false;
    initialise();
    return __atomic_load_n(&heap_state, __ATOMIC_ACQUIRE) == ready;
}

// glibc's, which belongs to no library here: handlers of pthread_atfork go at the program's end with those of atexit, before
// zg_runtime_finish. A thread that is just forking would then leave our locks as they are, for ever.
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);

static bool fork_unlocked, fork_from_main_thread;

// Locks in the order of their ranks, so that the child finds none of them held by a thread that it does not have.
static void before_fork(void) {
    zg_budget_before_fork();
    // A thread that is first seen here registers now, not while the locks are held.
    struct zg_thread *entered = zg_thread_enter(__builtin_frame_address(0));
    if (entered) zg_thread_leave(entered);
    struct zg_thread *self = zg_thread_current_or_null();
    fork_from_main_thread = zg_os_tid() == zg_os_pid();
    // A signal handler that forks while its thread is inside the runtime may hold any of the locks: none is taken.
    fork_unlocked = self && self->busy;
    if (fork_unlocked) return;
    if (self) {
        self->frame = NULL; // no call that could be abandoned
        ZG_SIGNAL_FENCE();
        self->busy++;
    }
    zg_thread_fork_prepare();
    zg_retire_lock();
    zg_quarantine_lock_all();
    zg_slab_lock_all();
    zg_span_lock();
    zg_depot_lock();
    // After all that a fault may happen under: who faults waits for it.
    zg_fault_fork_prepare();
    zg_report_lock();
    zg_signals_fork_prepare();
}

static void after_fork(bool child) {
    if (fork_unlocked && !child) return;
    zg_signals_fork_done(child, !fork_unlocked);
    zg_report_unlock(child);
    zg_fault_fork_done(child);
    if (child) zg_depot_reset_lock();
    else zg_depot_unlock();
    zg_span_unlock(child);
    zg_slab_unlock_all(child);
    zg_quarantine_unlock_all(child);
    zg_retire_unlock(child);
    zg_thread_fork_done(child);
    struct zg_thread *self = zg_thread_current_or_null();
    if (self && !fork_unlocked) self->busy--;
}

static void after_fork_in_parent(void) { after_fork(false); }
static void after_fork_in_child(void) {
    after_fork(true);
    zg_stats_after_fork_in_child();
    zg_budget_after_fork_in_child();
    zg_overread_after_fork_in_child();
    zg_sample_after_fork_in_child();
    zg_report_after_fork_in_child();
    zg_heap_after_fork_in_child();
    zg_maintenance_after_fork_in_child(fork_from_main_thread);
}

// children=ignore: our name leaves LD_PRELOAD, in place, before the program can pass it on.
static void forget_preload(void) {
    static const char name[] = "LD_PRELOAD=";
    for (char **entry = environ; entry && *entry; entry++) {
        uint64_t i = 0;
        while (name[i] && (*entry)[i] == name[i]) i++;
        if (name[i]) continue;
        char *to = *entry + i;
        for (const char *at = *entry + i; *at;) {
            uint64_t length = 0;
            while (at[length] && at[length] != ':' && at[length] != ' ') length++;
            bool ours = false;
            for (uint64_t j = 0; j + 9 <= length; j++) {
                static const char library[] = "libzguard";
                uint64_t k = 0;
                while (library[k] && at[j + k] == library[k]) k++;
                ours = ours || !library[k];
            }
            if (!ours && length) {
                if (to != *entry + i) *to++ = ':';
                for (uint64_t j = 0; j < length; j++) *to++ = at[j];
            }
            at += length;
            if (*at) at++;
        }
        *to = 0;
    }
}

static void describe_process(void) {
    zg_stats->version = ZG_STATS_VERSION;
    zg_stats->bytes = sizeof *zg_stats;
    zg_stats->pid = (uint32_t)zg_os_pid();
    zg_stats->started_ns = started_ns;
    zg_string_copy(zg_stats->program, zg_module_program_path(), sizeof zg_stats->program);
    zg_string_copy(zg_stats->runtime_version, ZG_VERSION, sizeof zg_stats->runtime_version);
    __atomic_store_n(&zg_stats->magic, ZG_STATS_MAGIC, __ATOMIC_RELEASE);
}

void zg_runtime_start(void) {
    if (started) return;
    started = true;
    started_ns = zg_os_clock_ns(0 /* CLOCK_REALTIME */);
    if (!zg_runtime_is_ready()) {
        static const char message[] = "zguard: warning: no address space for the guarded heap: the program is not guarded\n";
        if (heap_state == failed) zg_os_write(2, message, sizeof message - 1);
        return;
    }
    zg_foreign_prepare();
    zg_thread_init_keys();
    zg_report_open();
    describe_process();
    zg_foreign_look();
    if (zg_config.handle_signals) zg_signals_start();
    if (__register_atfork(before_fork, after_fork_in_parent, after_fork_in_child, NULL) != 0) {
        zg_stats_degrade(zg_degradation_no_fork_handlers);
        zg_protection_stop(); // a fault in a child could not be told from one of a borrowed thread
    }
    // The main thread is known from here on, whether it allocates or not: its stack may run over.
    struct zg_thread *thread = zg_thread_enter(__builtin_frame_address(0));
    if (thread) zg_thread_leave(thread);
    zg_maintenance_start();
    zg_swift_check_at_start();
    zg_sample_start();
    if (zg_config.stats) zg_stats_publish(); // complete from the start: readers look as soon as it is there
    if (zg_config.children != zg_children_follow) forget_preload();
}

bool zg_runtime_is_started(void) { return started && zg_runtime_is_ready(); }

void zg_runtime_finish(void) {
    if (!started || !zg_runtime_is_ready()) return;
    zg_maintenance_stop();
    zg_finding_never_abort(true);
    struct zg_thread *thread = zg_thread_enter(__builtin_frame_address(0));
    if (!thread) return;
    zg_thread_flush_counters(thread);
    if (zg_config.verify_at_exit) zg_quarantine_verify_all("exit");
    zg_report_end();
    zg_stats_note_refusals();
    zg_thread_leave(thread);
}
