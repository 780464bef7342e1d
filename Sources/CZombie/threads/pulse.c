// Maintains wait heartbeats in the run's table. A thread gets one at its first wait if it is to be watched.
//
// zguard stops a thread to sample its stack, which ends some waits early (epoll_wait, as after an unhandled signal); so
// no thread may be stopped while it waits. zguard first announces the stop and then checks that the thread is running;
// the thread first announces its wait and then checks for a stop. With both sides sequentially consistent, one of them
// sees the other (Dekker).

#include "threads/pulse.h"

#include "images/module.h"
#include "images/symbols.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/config.h"
#include "settings/run_directory.h"
#include "threads/thread.h"

struct zg_pulses *zg_pulses;

static int pid;
// Random number by which zguard recognizes the process; it reads the number from the process's memory
static uint64_t nonce;
// Dispatch's main queue, which other threads serve after the main thread has exited; 0 if there is none
static uint64_t main_queue;

static bool is_named(const char *name) {
    for (const char *at = zg_config.stall_threads; *at;) {
        uint64_t length = 0;
        while (at[length] && at[length] != ',') length++;
        if (zg_string_length(name) == length && __builtin_memcmp(at, name, length) == 0) return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static bool is_main_wanted(void) { return !zg_config.stall_threads[0] || is_named("main") || is_named("all"); }

static bool is_looked_at(const struct zg_thread *thread) {
    if (thread->tid == pid && is_main_wanted()) return true;
    if (!zg_config.stall_threads[0]) return false;
    if (is_named("all")) return true;
    char name[16];
    zg_os_thread_name(name);
    return is_named(name);
}

static struct zg_pulse *claim(int tid, uint32_t number, uint64_t queue, enum zg_pulse_state state) {
    for (int i = 0; i < ZG_PULSES; i++) {
        struct zg_pulse *pulse = &zg_pulses->pulses[i];
        uint32_t free = zg_pulse_free;
        if (__atomic_load_n(&pulse->state, __ATOMIC_RELAXED) != zg_pulse_free ||
            !__atomic_compare_exchange_n(&pulse->state, &free, zg_pulse_claimed, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        pulse->pid = (uint32_t)pid;
        pulse->tid = (uint32_t)tid;
        pulse->number = number;
        pulse->nonce = nonce;
        pulse->place = (uint64_t)&nonce;
        pulse->queue = queue;
        pulse->busy_until = 0;
        pulse->waits = pulse->times = pulse->singles = pulse->calls = 0;
        pulse->file = -1;
        pulse->watched = pulse->is_sampled = 0;
        __atomic_store_n(&pulse->state, state, __ATOMIC_RELEASE);
        const struct zg_run_message message = {.kind = zg_message_pulse, .index = (uint32_t)i};
        if (zg_run_send(&message) == zg_run_delivered) return pulse;
        __atomic_store_n(&pulse->state, zg_pulse_free, __ATOMIC_RELEASE);
        return NULL;
    }
    return NULL;
}

// Decides at a thread's first wait whether to watch it, and decides again at wait SECOND, because threads are often
// named after they have started.
static ZG_NOINLINE struct zg_pulse *try_claim(struct zg_thread *thread) {
    enum { SECOND = 16 };
    thread->waits = zg_min(thread->waits + 1, SECOND + 1);
    if (thread->waits != 1 && thread->waits != SECOND) return NULL;
    if (!is_looked_at(thread)) return NULL;
    return thread->pulse = claim(thread->tid, thread->number, 0, zg_pulse_beats);
}

// Waits until zguard has sampled the thread, but at most 1 s, because zguard may be gone.
static ZG_NOINLINE void let_sample(struct zg_pulse *pulse) {
    const int64_t longest = INT64_C(1000000000), step = 5000000;
    for (int64_t waited = 0; __atomic_load_n(&pulse->is_sampled, __ATOMIC_SEQ_CST) && waited < longest; waited += step)
        zg_os_futex_wait(&pulse->is_sampled, 1, false, step);
    __atomic_store_n(&pulse->is_sampled, 0, __ATOMIC_RELAXED);
}

struct zg_pulse *zg_pulse_wait_begins(void) {
    struct zg_thread *thread = zg_thread_current_or_null();
    if (!thread || !thread->number) return NULL;
    struct zg_pulse *pulse = thread->pulse;
    if (ZG_UNLIKELY(!pulse) && !(pulse = try_claim(thread))) return NULL;
    uint32_t watched = __atomic_load_n(&pulse->watched, __ATOMIC_RELAXED);
    if (ZG_UNLIKELY(watched) && watched == (uint32_t)pulse->busy_since)
        __atomic_store_n(&pulse->busy_until, zg_arch_ticks(), __ATOMIC_RELAXED);
    __atomic_exchange_n(&pulse->busy_since, 0, __ATOMIC_SEQ_CST);
    if (ZG_UNLIKELY(__atomic_load_n(&pulse->is_sampled, __ATOMIC_SEQ_CST))) let_sample(pulse);
    return pulse;
}

static void count(uint8_t *waits) {
    if (*waits < ZG_PULSE_WAITS) __atomic_store_n(waits, *waits + 1, __ATOMIC_RELAXED);
}

// Waits that fail or are interrupted by a signal do not characterize the program and are not counted by kind.
static void count_wait(struct zg_pulse *pulse, int file, long result) {
    count(&pulse->calls);
    if (file == zg_waits_for_nothing || result < 0) return;
    if (result == 0) {
        count(&pulse->times);
        count(&pulse->waits);
    } else if (file == zg_waits_for_several) {
        count(&pulse->waits);
    } else {
        count(&pulse->singles);
        __atomic_store_n(&pulse->file, file, __ATOMIC_RELAXED);
    }
}

void zg_pulse_wait_ends(struct zg_pulse *pulse, int file, long result) {
    if (pulse->times < ZG_PULSE_WAITS) count_wait(pulse, file, result);
    __atomic_store_n(&pulse->busy_since, zg_arch_ticks() | 1, __ATOMIC_RELEASE);
}

void zg_pulse_thread_ends(struct zg_thread *thread) {
    struct zg_pulse *pulse = thread->pulse;
    thread->pulse = NULL;
    thread->waits = 0;
    if (pulse) __atomic_store_n(&pulse->state, zg_pulse_free, __ATOMIC_RELEASE);
}

static void claim_for_process(void) {
    if (is_named("pool")) claim(pid, 0, 0, zg_pulse_pool);
    if (main_queue && is_main_wanted()) claim(pid, 0, main_queue, zg_pulse_queue);
}

void zg_pulse_after_fork_in_child(void) {
    if (!zg_pulses) return;
    pid = zg_os_pid();
    nonce = zg_mix(nonce + (uint64_t)pid);
    claim_for_process();
    for (struct zg_thread *thread = zg_threads; thread; thread = thread->next) {
        thread->pulse = NULL;
        thread->waits = 0;
    }
}

static void find_main_queue(void) {
    static const char *const name[] = {"_dispatch_main_q"};
    main_queue = (uint64_t)zg_module_variable(name[0]);
    if (!main_queue) zg_symbols_of_program(ZG_SYMBOLS_SWIFT, name, &main_queue, 1);
}

void zg_pulse_start(struct zg_pulses *table) {
    pid = zg_os_pid();
    find_main_queue();
    nonce = zg_mix(zg_arch_ticks() ^ (uint64_t)(uint32_t)pid << 32);
    // Free heartbeats left over from before an exec, which keeps the pid.
    for (int i = 0; i < ZG_PULSES; i++)
        if (table->pulses[i].state >= zg_pulse_beats && table->pulses[i].pid == (uint32_t)pid)
            __atomic_store_n(&table->pulses[i].state, zg_pulse_free, __ATOMIC_RELEASE);
    table->stall_ms = (uint32_t)zg_config.stall_ms;
    table->stall_times = (uint32_t)zg_config.stall_times;
    __atomic_store_n(&table->is_wanted, 1, __ATOMIC_RELEASE);
    zg_pulses = table;
    claim_for_process();
}
