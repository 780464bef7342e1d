// A dying thread and the zguard that takes the stacks of its process: a place on the page of the run, a message, a futex. Signal
// context; no lock.

#include "faults/collector.h"

#include "include/zg_collector.h"
#include "platform/clock.h"
#include "platform/os.h"
#include "settings/coverage.h"
#include "settings/run_directory.h"
#include "threads/thread.h"

static struct zg_dying_process dying;
static int asking; // whose that is; 0: nobody's

static struct zg_collector_request *claim(struct zg_collector *collector) {
    for (int i = 0; i < ZG_COLLECTOR_REQUESTS; i++) {
        uint32_t free = zg_request_free;
        if (__atomic_compare_exchange_n(&collector->requests[i].state, &free, zg_request_claimed, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return &collector->requests[i];
    }
    return NULL;
}

static void note_threads(void) {
    const struct zg_thread *thread = __atomic_load_n(&zg_threads, __ATOMIC_ACQUIRE);
    dying.thread_count = 0;
    for (; thread && dying.thread_count < ZG_DYING_THREADS; thread = thread->next) {
        if (!thread->tid || !thread->number) continue; // nobody's yet
        dying.tids[dying.thread_count] = (uint32_t)thread->tid;
        dying.numbers[dying.thread_count++] = thread->number;
    }
}

static void describe(const struct zg_registers *registers) {
    static uint32_t asked;
    dying.nonce = zg_mix(zg_os_clock_ns(1 /* CLOCK_MONOTONIC */) ^ (uint64_t)&dying ^ ++asked);
    dying.pid = (uint32_t)zg_os_pid();
    dying.tid = (uint32_t)zg_os_tid();
    dying.pc = registers->pc;
    dying.has_few_registers = registers->known != (UINT64_C(1) << ZG_ARCH_REGISTER_COUNT) - 1;
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) dying.registers[i] = registers->value[i];
    note_threads();
}

// Time is that of the clock, or counted in steps, whichever is more: under a filter of system calls there may be no clock, and where others
// want the processor a step takes long.
static const int64_t longest = INT64_C(10000000000), step = 20000000;
struct patience {
    uint64_t since;
    int64_t steps;
};

static bool is_over(const struct patience *patience) {
    uint64_t now = zg_os_clock_ns(1 /* CLOCK_MONOTONIC */);
    return patience->steps * step >= longest || (now > patience->since && (int64_t)(now - patience->since) >= longest);
}

static void wait_a_step(struct patience *patience, uint32_t *word, uint32_t expected, bool is_private) {
    zg_os_futex_wait(word, expected, is_private, step);
    patience->steps++;
}

static uint32_t nobody; // wakes who waits for it

// Two threads may die at once.
static bool take_turn(struct patience *patience) {
    int tid = zg_os_tid(), before = 0;
    while (!__atomic_compare_exchange_n(&asking, &before, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (before == tid || is_over(patience)) return false; // what it does meanwhile has failed
        wait_a_step(patience, &nobody, 0, true);
        before = 0;
    }
    return true;
}

// The message is sent again now and then: its socket may have been full. A zguard that was killed is a process until its parent reaps it,
// but its socket is closed. One that ends says so on the page.
static bool is_there(const struct zg_collector *collector, int zguard, const struct patience *patience,
                     const struct zg_run_message *message) {
    enum { EACH = 10 };
    return __atomic_load_n(&collector->pid, __ATOMIC_ACQUIRE) && !zg_os_is_gone(zguard) &&
           (patience->steps % EACH || zg_run_send(message) != zg_run_is_over);
}

static enum zg_collected ask(struct zg_collector *collector, int zguard, const struct zg_registers *registers,
                             struct patience *patience) {
    static const struct zg_run_message wake = {.kind = zg_message_wrote};
    struct zg_collector_request *request;
    while (!(request = claim(collector)) && !is_over(patience) && is_there(collector, zguard, patience, &wake))
        wait_a_step(patience, &nobody, 0, true);
    if (!request) return zg_collected_silence;
    describe(registers);
    request->pid = dying.pid;
    zg_os_let_trace(zguard);
    __atomic_store_n(&request->state, zg_request_asked, __ATOMIC_RELEASE);
    struct zg_run_message message = {zg_message_dying, (uint32_t)(request - collector->requests), (uint64_t)&dying,
                                     dying.nonce};
    zg_run_send(&message);
    uint32_t state;
    while ((state = __atomic_load_n(&request->state, __ATOMIC_ACQUIRE)) != zg_request_answered && !is_over(patience) &&
           is_there(collector, zguard, patience, &message))
        wait_a_step(patience, &request->state, state, false);
    __atomic_store_n(&request->state, zg_request_free, __ATOMIC_RELEASE);
    return state == zg_request_answered ? zg_collected_threads : zg_collected_silence;
}

enum zg_collected zg_collector_ask(const struct zg_registers *registers) {
    struct zg_collector *collector = zg_coverage_run ? &zg_coverage_run->collector : NULL;
    int zguard = collector ? (int)__atomic_load_n(&collector->pid, __ATOMIC_ACQUIRE) : 0;
    struct patience patience = {.since = zg_os_clock_ns(1 /* CLOCK_MONOTONIC */)};
    if (!zguard || zg_os_is_gone(zguard)) return zg_collected_nobody;
    if (!take_turn(&patience)) return zg_collected_silence;
    enum zg_collected collected = ask(collector, zguard, registers, &patience);
    __atomic_store_n(&asking, 0, __ATOMIC_RELEASE);
    return collected;
}
