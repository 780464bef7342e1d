// Maintains wait heartbeats in the run's table. A thread gets one at its first wait if it is to be watched.
//
// zguard stops a thread to sample its stack, which ends some waits early (epoll_wait, as after an unhandled signal); so
// no thread may be stopped while it waits. zguard first announces the stop and then checks that the thread is running;
// the thread first announces its wait and then checks for a stop. With both sides sequentially consistent, one of them
// sees the other (Dekker).

#include "threads/heartbeat.h"

#include "images/module.h"
#include "images/symbols.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/config.h"
#include "settings/run_directory.h"
#include "threads/thread.h"

struct zg_heartbeats *zg_heartbeats;

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

static struct zg_heartbeat *claim(int tid, uint32_t number, uint64_t queue, enum zg_heartbeat_state state) {
    for (int i = 0; i < ZG_HEARTBEATS; i++) {
        struct zg_heartbeat *heartbeat = &zg_heartbeats->heartbeats[i];
        uint32_t free = zg_heartbeat_free;
        if (__atomic_load_n(&heartbeat->state, __ATOMIC_RELAXED) != zg_heartbeat_free ||
            !__atomic_compare_exchange_n(&heartbeat->state, &free, zg_heartbeat_claimed, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        heartbeat->pid = (uint32_t)pid;
        heartbeat->tid = (uint32_t)tid;
        heartbeat->number = number;
        heartbeat->nonce = nonce;
        heartbeat->place = (uint64_t)&nonce;
        heartbeat->queue = queue;
        heartbeat->busy_until = 0;
        heartbeat->waits = heartbeat->times = heartbeat->singles = heartbeat->calls = 0;
        heartbeat->file = -1;
        heartbeat->watched = heartbeat->is_sampled = 0;
        __atomic_store_n(&heartbeat->state, state, __ATOMIC_RELEASE);
        const struct zg_run_message message = {.kind = zg_message_heartbeat, .index = (uint32_t)i};
        if (zg_run_send(&message) == zg_run_delivered) return heartbeat;
        __atomic_store_n(&heartbeat->state, zg_heartbeat_free, __ATOMIC_RELEASE);
        return NULL;
    }
    return NULL;
}

// Decides at a thread's first wait whether to watch it, and decides again at wait SECOND, because threads are often
// named after they have started.
static ZG_NOINLINE struct zg_heartbeat *try_claim(struct zg_thread *thread) {
    enum { SECOND = 16 };
    thread->waits = zg_min(thread->waits + 1, SECOND + 1);
    if (thread->waits != 1 && thread->waits != SECOND) return NULL;
    if (!is_looked_at(thread)) return NULL;
    return thread->heartbeat = claim(thread->tid, thread->number, 0, zg_heartbeat_beats);
}

// Waits until zguard has sampled the thread, but at most 1 s, because zguard may be gone.
static ZG_NOINLINE void let_sample(struct zg_heartbeat *heartbeat) {
    const int64_t longest = INT64_C(1000000000), step = 5000000;
    for (int64_t waited = 0; __atomic_load_n(&heartbeat->is_sampled, __ATOMIC_SEQ_CST) && waited < longest;
         waited += step)
        zg_os_futex_wait(&heartbeat->is_sampled, 1, false, step);
    __atomic_store_n(&heartbeat->is_sampled, 0, __ATOMIC_RELAXED);
}

struct zg_heartbeat *zg_heartbeat_wait_begins(void) {
    struct zg_thread *thread = zg_thread_current_or_null();
    if (!thread || !thread->number) return NULL;
    struct zg_heartbeat *heartbeat = thread->heartbeat;
    if (ZG_UNLIKELY(!heartbeat) && !(heartbeat = try_claim(thread))) return NULL;
    uint32_t watched = __atomic_load_n(&heartbeat->watched, __ATOMIC_RELAXED);
    if (ZG_UNLIKELY(watched) && watched == (uint32_t)heartbeat->busy_since)
        __atomic_store_n(&heartbeat->busy_until, zg_arch_ticks(), __ATOMIC_RELAXED);
    __atomic_exchange_n(&heartbeat->busy_since, 0, __ATOMIC_SEQ_CST);
    if (ZG_UNLIKELY(__atomic_load_n(&heartbeat->is_sampled, __ATOMIC_SEQ_CST))) let_sample(heartbeat);
    return heartbeat;
}

static void count(uint8_t *waits) {
    if (*waits < ZG_HEARTBEAT_WAITS) __atomic_store_n(waits, *waits + 1, __ATOMIC_RELAXED);
}

// Waits that fail or are interrupted by a signal do not characterize the program and are not counted by kind.
static void count_wait(struct zg_heartbeat *heartbeat, int file, long result) {
    count(&heartbeat->calls);
    if (file == zg_waits_for_nothing || result < 0) return;
    if (result == 0) {
        count(&heartbeat->times);
        count(&heartbeat->waits);
    } else if (file == zg_waits_for_several) {
        count(&heartbeat->waits);
    } else {
        count(&heartbeat->singles);
        __atomic_store_n(&heartbeat->file, file, __ATOMIC_RELAXED);
    }
}

void zg_heartbeat_wait_ends(struct zg_heartbeat *heartbeat, int file, long result) {
    if (heartbeat->times < ZG_HEARTBEAT_WAITS) count_wait(heartbeat, file, result);
    __atomic_store_n(&heartbeat->busy_since, zg_arch_ticks() | 1, __ATOMIC_RELEASE);
}

void zg_heartbeat_thread_ends(struct zg_thread *thread) {
    struct zg_heartbeat *heartbeat = thread->heartbeat;
    thread->heartbeat = NULL;
    thread->waits = 0;
    if (heartbeat) __atomic_store_n(&heartbeat->state, zg_heartbeat_free, __ATOMIC_RELEASE);
}

static void claim_for_process(void) {
    if (is_named("pool")) claim(pid, 0, 0, zg_heartbeat_pool);
    if (main_queue && is_main_wanted()) claim(pid, 0, main_queue, zg_heartbeat_queue);
}

void zg_heartbeat_after_fork_in_child(void) {
    if (!zg_heartbeats) return;
    pid = zg_os_pid();
    nonce = zg_mix(nonce + (uint64_t)pid);
    claim_for_process();
    for (struct zg_thread *thread = zg_threads; thread; thread = thread->next) {
        thread->heartbeat = NULL;
        thread->waits = 0;
    }
}

static void find_main_queue(void) {
    static const char *const name[] = {"_dispatch_main_q"};
    main_queue = (uint64_t)zg_module_variable(name[0]);
    if (!main_queue) zg_symbols_of_program(ZG_SYMBOLS_SWIFT, name, &main_queue, 1);
}

void zg_heartbeat_start(struct zg_heartbeats *table) {
    pid = zg_os_pid();
    find_main_queue();
    nonce = zg_mix(zg_arch_ticks() ^ (uint64_t)(uint32_t)pid << 32);
    // Release the heartbeats that the program before an exec has left: exec keeps the pid.
    for (int i = 0; i < ZG_HEARTBEATS; i++)
        if (table->heartbeats[i].state >= zg_heartbeat_beats && table->heartbeats[i].pid == (uint32_t)pid)
            __atomic_store_n(&table->heartbeats[i].state, zg_heartbeat_free, __ATOMIC_RELEASE);
    table->stall_ms = (uint32_t)zg_config.stall_ms;
    table->stall_times = (uint32_t)zg_config.stall_times;
    __atomic_store_n(&table->is_wanted, 1, __ATOMIC_RELEASE);
    zg_heartbeats = table;
    claim_for_process();
}
