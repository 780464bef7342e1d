// Asks zguard for the stacks of all threads before the process dies, for a search for leaks before it ends, or for a
// search for pointers to a freed block. Each question is a request on the run's page, a message on the run's socket,
// and a wait on a futex. Signal context; no lock.

#include "faults/collector.h"

#include "findings/found.h"
#include "include/zg_collector.h"
#include "platform/clock.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/run_directory.h"
#include "threads/thread.h"

static struct zg_dying_process dying;
static int dying_thread; // thread that uses `dying`; 0 if none

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
        if (!thread->tid || !thread->number) continue; // no thread uses this state
        dying.tids[dying.thread_count] = (uint32_t)thread->tid;
        dying.numbers[dying.thread_count++] = thread->number;
    }
}

// What the process asks for.
struct question {
    enum zg_run_message_kind kind;
    const struct zg_registers *registers; // where the process dies or ends, or has used the block
    const struct zg_finding *finding;     // zg_message_holders: the finding about the block
};

static uint64_t new_nonce(void) {
    static uint32_t asked;
    return zg_mix(zg_os_clock_ns(1 /* CLOCK_MONOTONIC */) ^ (uint64_t)&dying ^
                  __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED));
}

static void describe(const struct question *question) {
    const struct zg_registers *registers = question->registers;
    const struct zg_finding *finding = question->finding;
    dying.nonce = finding ? finding->search : new_nonce();
    dying.pid = (uint32_t)zg_os_pid();
    dying.tid = (uint32_t)zg_os_tid();
    dying.pc = registers->pc;
    dying.has_few_registers = registers->known != (UINT64_C(1) << ZG_ARCH_REGISTER_COUNT) - 1;
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) dying.registers[i] = registers->value[i];
    note_threads();
    if (!finding) return;
    dying.wait_ms = (uint32_t)zg_config.scan_ms;
    dying.since_ns = zg_os_clock_ns(1 /* CLOCK_MONOTONIC */);
    dying.block_start = finding->block.start;
    dying.block_size = finding->block.size;
    dying.signal_stack = finding->signal_stack;
    dying.signal_stack_bytes = finding->signal_stack_bytes;
}

// Time limits. Elapsed time is measured by the clock, and by the number of waits times `step`; the larger value counts.
// A seccomp filter may forbid reading the clock, and on a busy machine a wait takes longer than `step`.
static const int64_t longest_collection = INT64_C(10000000000), longest_search = INT64_C(60000000000), step = 20000000;
struct wait_limit {
    uint64_t since;
    int64_t steps, longest;
};

static bool is_over(const struct wait_limit *wait_limit) {
    uint64_t now = zg_os_clock_ns(1 /* CLOCK_MONOTONIC */);
    return wait_limit->steps * step >= wait_limit->longest ||
           (now > wait_limit->since && (int64_t)(now - wait_limit->since) >= wait_limit->longest);
}

static void wait_a_step(struct wait_limit *wait_limit, uint32_t *word, uint32_t expected, bool is_private) {
    zg_os_futex_wait(word, expected, is_private, step);
    wait_limit->steps++;
}

static uint32_t never_woken; // futex that is never woken: waits on it time out

// Waits until no other thread uses `dying`: two threads may die at once.
static bool take_turn(struct wait_limit *wait_limit) {
    int tid = zg_os_tid(), before = 0;
    while (!__atomic_compare_exchange_n(&dying_thread, &before, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (before == tid || is_over(wait_limit)) return false; // this thread has faulted while it was asking zguard
        wait_a_step(wait_limit, &never_woken, 0, true);
        before = 0;
    }
    return true;
}

// Whether zguard can still answer. Sends the message again every EACH waits, because the socket may have been full. If
// zguard was killed, its socket is closed, although the process remains (as a zombie process) until its parent reaps
// it. If zguard exits, it clears its pid on the page.
static bool can_zguard_answer(const struct zg_collector *collector, int zguard, const struct wait_limit *wait_limit,
                              const struct zg_run_message *message) {
    enum { EACH = 10 };
    return __atomic_load_n(&collector->pid, __ATOMIC_ACQUIRE) && !zg_os_is_gone(zguard) &&
           (wait_limit->steps % EACH || zg_run_send(message) != zg_run_is_over);
}

static enum zg_collected ask(struct zg_collector *collector, int zguard, const struct question *question,
                             struct wait_limit *wait_limit) {
    static const struct zg_run_message wake = {.kind = zg_message_wrote};
    struct zg_collector_request *request;
    while (!(request = claim(collector)) && !is_over(wait_limit) &&
           can_zguard_answer(collector, zguard, wait_limit, &wake))
        wait_a_step(wait_limit, &never_woken, 0, true);
    if (!request) return zg_collected_no_answer;
    describe(question);
    request->pid = dying.pid;
    zg_os_let_trace(zguard);
    __atomic_store_n(&request->state, zg_request_asked, __ATOMIC_RELEASE);
    struct zg_run_message message = {question->kind, (uint32_t)(request - collector->requests), (uint64_t)&dying,
                                     dying.nonce};
    zg_run_send(&message);
    uint32_t state;
    while ((state = __atomic_load_n(&request->state, __ATOMIC_ACQUIRE)) != zg_request_answered &&
           !is_over(wait_limit) && can_zguard_answer(collector, zguard, wait_limit, &message))
        wait_a_step(wait_limit, &request->state, state, false);
    __atomic_store_n(&request->state, zg_request_free, __ATOMIC_RELEASE);
    return state == zg_request_answered ? zg_collected_threads : zg_collected_no_answer;
}

static enum zg_collected ask_zguard(const struct question *question, int64_t longest) {
    struct zg_collector *collector = zg_coverage_run_page ? &zg_coverage_run_page->collector : NULL;
    int zguard = collector ? (int)__atomic_load_n(&collector->pid, __ATOMIC_ACQUIRE) : 0;
    struct wait_limit wait_limit = {.since = zg_os_clock_ns(1 /* CLOCK_MONOTONIC */), .longest = longest};
    if (!zguard || zg_os_is_gone(zguard)) return zg_collected_no_zguard;
    if (!take_turn(&wait_limit)) return zg_collected_no_answer;
    enum zg_collected collected = ask(collector, zguard, question, &wait_limit);
    __atomic_store_n(&dying_thread, 0, __ATOMIC_RELEASE);
    return collected;
}

enum zg_collected zg_collector_ask(const struct zg_registers *registers) {
    const struct question question = {.kind = zg_message_dying, .registers = registers};
    return ask_zguard(&question, longest_collection);
}

// Not inlined, so that its frame holds the callee-saved registers, in which callers may keep pointers.
__attribute__((noinline)) void zg_collector_search_leaks(void) {
    enum { SAVED_BYTES = 160 };
    if (!zg_coverage_run_page || !__atomic_load_n(&zg_coverage_run_page->collector.wants_leaks, __ATOMIC_ACQUIRE))
        return;
    __builtin_unwind_init();
    // Search the stack from the saved registers up: deeper frames of the runtime contain stale words of earlier calls.
    struct zg_registers end = {.known = UINT64_C(1) << ZG_ARCH_SP};
    end.value[ZG_ARCH_SP] = (uint64_t)__builtin_frame_address(0) - SAVED_BYTES;
    const struct question question = {.kind = zg_message_ending, .registers = &end};
    ask_zguard(&question, longest_search);
}

void zg_collector_caller_registers(struct zg_registers *registers, const uint64_t *frame) {
    *registers = (struct zg_registers){.pc = frame[1]};
    registers->value[ZG_ARCH_FP] = frame[0];
    registers->value[ZG_ARCH_SP] = zg_arch_caller_sp(frame);
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) {
        if (i == ZG_ARCH_PC) registers->value[i] = frame[1];
        if (i == ZG_ARCH_PC || i == ZG_ARCH_FP || i == ZG_ARCH_SP) registers->known |= UINT64_C(1) << i;
    }
}

// Maximum number of searches in a process that continues after findings: each search stops the process.
enum { SEARCHES = 8 };
static uint32_t searches;

// Under the report lock. A child between vfork and exec starts no search: it shares its parent's memory, and zguard
// cannot distinguish child and parent.
static uint64_t plan_search(void) {
    int zguard = (int)__atomic_load_n(&zg_coverage_run_page->collector.pid, __ATOMIC_ACQUIRE);
    if (searches == SEARCHES || !zguard || zg_os_is_gone(zguard) || !zg_os_is_own_process()) return 0;
    searches++;
    return new_nonce() | 1;
}

static void search_holders(const struct zg_finding *finding) {
    const struct zg_thread *thread = zg_thread_current_or_null();
    struct zg_registers registers = {.pc = 0};
    struct question question = {zg_message_holders, finding->registers, finding};
    if (!question.registers) {
        if (thread && thread->frame) zg_collector_caller_registers(&registers, thread->frame);
        question.registers = &registers;
    }
    ask_zguard(&question, (int64_t)zg_config.scan_ms * 1000000);
}

void zg_collector_start(void) {
    if (!zg_config.scan_ms || !zg_coverage_run_page) return;
    zg_found_plan_search = plan_search;
    zg_found_search = search_holders;
}

void zg_collector_after_fork_in_child(void) {
    __atomic_store_n(&dying_thread, 0, __ATOMIC_RELAXED);
    searches = 0;
}
