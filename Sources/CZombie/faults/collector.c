// A dying thread and the zguard that takes the stacks of its process: words on the page of the run, a futex. Signal context; no lock.

#include "faults/collector.h"

#include "findings/report_output.h"
#include "include/zg_collector.h"
#include "platform/clock.h"
#include "platform/os.h"
#include "settings/coverage.h"
#include "threads/thread.h"

// One crash at a time (fault.c).
static struct zg_dying_process dying;

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
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) dying.registers[i] = registers->value[i];
    note_threads();
}

// Waiting is counted in steps: under a filter of system calls there may be no clock.
enum zg_collected zg_collector_ask(const struct zg_registers *registers) {
    const int64_t longest = INT64_C(10000000000), step = 20000000;
    struct zg_collector *collector = zg_coverage_run ? &zg_coverage_run->collector : NULL;
    int zguard = collector ? (int)__atomic_load_n(&collector->pid, __ATOMIC_ACQUIRE) : 0;
    struct zg_collector_request *request = NULL;
    static uint32_t nobody;
    int64_t waited = 0;
    if (!zguard || zg_os_is_gone(zguard)) return zg_collected_nobody;
    for (; !(request = claim(collector)) && waited < longest; waited += step) zg_os_futex_wait(&nobody, 0, true, step);
    if (!request) return zg_collected_silence;
    describe(registers);
    request->pid = dying.pid;
    request->place = (uint64_t)&dying;
    request->nonce = dying.nonce;
    zg_os_let_trace(zguard);
    __atomic_store_n(&request->state, zg_request_asked, __ATOMIC_RELEASE);
    zg_report_wake_collector();
    uint32_t state;
    while ((state = __atomic_load_n(&request->state, __ATOMIC_ACQUIRE)) != zg_request_answered && waited < longest &&
           !zg_os_is_gone(zguard)) {
        zg_os_futex_wait(&request->state, state, false, step);
        waited += step;
    }
    __atomic_store_n(&request->state, zg_request_free, __ATOMIC_RELEASE);
    return state == zg_request_answered ? zg_collected_threads : zg_collected_silence;
}
