// Records of running signal handlers, at most 128, and their entries on the run's page. No lock, no allocation.

#define _GNU_SOURCE
#include "faults/handled.h"

#include <ucontext.h>

#include "faults/signals.h"
#include "platform/os.h"
#include "settings/coverage.h"
#include "stacks/unwind.h"

enum {
    CALLS = 128,
    // A program may recover from faults all the time, so descriptions are limited. After RECOVERED_MOST recoveries from
    // faults of one instruction, its faults are no longer described. After DESCRIBED_MOST descriptions, no fault of the
    // process is described. A fault takes 20 to 27 us with a description (the first one 144), 8 us without; unguarded
    // 2.3 us.
    RECOVERED_MOST = 3,
    DESCRIBED_MOST = 512,
    INSTRUCTIONS = 256
};

static struct zg_handled calls[CALLS];
static struct {
    uint64_t pc;
    uint32_t times;
} recovered[INSTRUCTIONS];
static uint32_t described, taken;

// MARK: the page of the run

static struct zg_handler_call *page_calls(void) {
    return zg_coverage_run_page ? (void *)((char *)zg_coverage_run_page + ZG_HANDLED_PLACE) : NULL;
}

static struct zg_handled_fault *page_fault(uint32_t index) {
    return (void *)((char *)zg_coverage_run_page + ZG_HANDLED_PLACE + ZG_HANDLED_CALLS_BYTES +
                    index * ZG_HANDLED_FAULT_BYTES);
}

static struct zg_handler_call *note_call(const struct zg_handled *handled) {
    struct zg_handler_call *call = page_calls();
    for (int i = 0; call && i < ZG_HANDLER_CALLS; i++, call++) {
        uint32_t free = 0;
        if (__atomic_load_n(&call->pid, __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(&call->pid, &free, (uint32_t)handled->pid, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        call->tid = (uint32_t)handled->tid;
        call->signal = (uint32_t)handled->signal;
        return call;
    }
    return NULL;
}

// Returns the counter of recoveries from this instruction's faults. If its counter in the hash table belongs to another
// instruction, returns NULL, or with `takes_place` resets the counter for this instruction. Two instructions that share
// a counter reset it for each other, so that neither reaches RECOVERED_MOST.
static uint32_t *times_recovered(uint64_t pc, bool takes_place) {
    uint64_t index = (pc * UINT64_C(0x9e3779b97f4a7c15)) >> 56;
    if (zg_load(&recovered[index].pc) != pc) {
        if (!takes_place) return NULL;
        zg_store(&recovered[index].pc, pc);
        __atomic_store_n(&recovered[index].times, 0, __ATOMIC_RELAXED);
    }
    return &recovered[index].times;
}

struct zg_handled_fault *zg_handled_claim_page(struct zg_handled *handled) {
    const uint32_t *times = times_recovered(handled->pc, false);
    if (!zg_coverage_run_page || (times && __atomic_load_n(times, __ATOMIC_RELAXED) >= RECOVERED_MOST) ||
        __atomic_load_n(&described, __ATOMIC_RELAXED) >= DESCRIBED_MOST)
        return NULL;
    for (uint32_t i = 0; i < ZG_HANDLED_FAULTS; i++) {
        struct zg_handled_fault *fault = page_fault(i);
        uint32_t free = zg_handled_free;
        if (!__atomic_compare_exchange_n(&fault->state, &free, zg_handled_claimed, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        __atomic_fetch_add(&described, 1, __ATOMIC_RELAXED);
        fault->pid = (uint32_t)handled->pid;
        fault->tid = (uint32_t)handled->tid;
        return handled->fault = fault;
    }
    return NULL;
}

void zg_handled_publish(struct zg_handled *handled, uint64_t bytes) {
    if (!bytes) return zg_handled_leave_page(handled);
    handled->fault->bytes = (uint32_t)bytes;
    __atomic_store_n(&handled->fault->state, zg_handled_held, __ATOMIC_RELEASE);
}

// MARK: beginning and end

struct zg_handled *zg_handled_begin(enum zg_handled_kind kind, int signal, const siginfo_t *info, const void *context,
                                    const void *here) {
    struct zg_thread *thread = zg_thread_current_or_null();
    struct zg_handled *outer = thread ? thread->handled : NULL;
    if (!thread || !thread->number || (outer && outer->kind != zg_handled_signal)) return NULL;
    struct zg_handled *handled = NULL;
    for (int i = 0; i < CALLS && !handled; i++) {
        uint32_t free = 0;
        if (!__atomic_load_n(&calls[i].is_taken, __ATOMIC_RELAXED) &&
            __atomic_compare_exchange_n(&calls[i].is_taken, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            handled = &calls[i];
    }
    if (!handled) return NULL;
    __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
    const ucontext_t *interrupted = context;
    struct zg_registers registers;
    zg_arch_registers_from_context(&registers, context);
    handled->kind = kind;
    handled->outer = outer;
    handled->signal = signal;
    handled->pid = zg_os_pid();
    handled->tid = thread->tid;
    handled->thread_number = thread->number;
    handled->is_reported = false;
    handled->info = (uint64_t)info;
    handled->context = (uint64_t)context;
    handled->entry = (uint64_t)here;
    handled->interrupted = registers.value[ZG_ARCH_SP];
    handled->stack_low = (uint64_t)interrupted->uc_stack.ss_sp;
    handled->stack_bytes = interrupted->uc_stack.ss_flags & SS_DISABLE ? 0 : interrupted->uc_stack.ss_size;
    handled->pc = registers.pc;
    handled->fault = NULL;
    handled->call = note_call(handled);
    __atomic_store_n(&thread->handled, handled, __ATOMIC_RELEASE);
    zg_thread_request_deferred(thread, zg_deferred_handler_check);
    return handled;
}

static void leave_call(struct zg_handled *handled) {
    struct zg_handler_call *call = __atomic_exchange_n(&handled->call, NULL, __ATOMIC_ACQ_REL);
    if (call) __atomic_store_n(&call->pid, 0, __ATOMIC_RELEASE);
}

void zg_handled_leave_page(struct zg_handled *handled) {
    struct zg_handled_fault *fault = __atomic_exchange_n(&handled->fault, NULL, __ATOMIC_ACQ_REL);
    if (fault) __atomic_store_n(&fault->state, zg_handled_free, __ATOMIC_RELEASE);
}

// The thread has left its handler and continues: drops the record and counts the recovery.
static void note_recovered(struct zg_thread *thread, struct zg_handled *handled) {
    if (thread->lowered.start) zg_signals_restore_lowered_stack();
    if (handled->kind != zg_handled_signal) __atomic_fetch_add(times_recovered(handled->pc, true), 1, __ATOMIC_RELAXED);
    __atomic_store_n(&thread->handled, handled->outer, __ATOMIC_RELEASE);
    leave_call(handled);
    zg_handled_leave_page(handled);
    __atomic_store_n(&handled->is_taken, 0, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&taken, 1, __ATOMIC_RELAXED);
}

void zg_handled_end(struct zg_handled *handled) {
    struct zg_thread *thread = zg_thread_current_or_null();
    if (handled && thread && thread->handled == handled) note_recovered(thread, handled);
}

bool zg_handled_is_any(void) { return __atomic_load_n(&taken, __ATOMIC_RELAXED) != 0; }

void zg_handled_leave_all(const struct zg_handled *but, bool from_pages) {
    for (int i = 0; i < CALLS; i++) {
        if (!__atomic_load_n(&calls[i].is_taken, __ATOMIC_ACQUIRE) || calls[i].pid != zg_os_pid()) continue;
        if (&calls[i] != but) leave_call(&calls[i]);
        if (from_pages) zg_handled_leave_page(&calls[i]);
    }
}

void zg_handled_after_fork_in_child(void) {
    struct zg_thread *thread = zg_thread_current_or_null();
    if (thread) thread->handled = NULL;
    // Do not clear the handler records on the page that all processes of the run share: they are the parent's.
    for (int i = 0; i < CALLS; i++) __atomic_store_n(&calls[i].is_taken, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&taken, 0, __ATOMIC_RELAXED);
}

// MARK: is the thread still in its handler?

static bool is_on_alternate_stack(const struct zg_handled *handled, uint64_t sp) {
    return sp - handled->stack_low < handled->stack_bytes &&
           handled->entry - handled->stack_low < handled->stack_bytes && sp < handled->entry;
}

// Whether the stack pointer is outside the handler: not below the runtime's handler, not below the interrupted stack
// pointer, and not on the reserve stack. Code that the handler calls never runs outside, unless the handler has
// switched to another stack.
static bool is_outside(const struct zg_handled *handled, const struct zg_thread *thread, uint64_t sp) {
    return sp >= handled->interrupted && !is_on_alternate_stack(handled, sp) &&
           sp - (uint64_t)thread->reserve_stack >= thread->reserve_stack_bytes;
}

// Whether the thread is still in the handler: then unwinding reaches the interrupted context. If the unwinder fails in
// code without unwind information, the stack pointer decides.
static bool is_inside(const struct zg_handled *handled, const struct zg_thread *thread, struct zg_registers *registers,
                      bool is_exact) {
    uint64_t sp = registers->value[ZG_ARCH_SP];
    switch (zg_unwind_meets(registers, is_exact, handled->context)) {
    case zg_unwind_met: return true;
    case zg_unwind_not_met: return false;
    case zg_unwind_lost: break;
    }
    return !is_outside(handled, thread, sp);
}

static struct zg_handled *around(struct zg_registers *registers, bool is_exact) {
    struct zg_thread *thread = zg_thread_current_or_null();
    struct zg_handled *handled = thread ? thread->handled : NULL;
    if (!handled || handled->pid != zg_os_pid()) return NULL;
    // Keep a reported fault: the process dies of it, perhaps by a signal that arrives after the handler has returned.
    if (handled->is_reported || is_inside(handled, thread, registers, is_exact)) return handled;
    note_recovered(thread, handled);
    return NULL;
}

struct zg_handled *zg_handled_around_context(const void *context) {
    struct zg_registers registers;
    zg_arch_registers_from_context(&registers, context);
    return around(&registers, true);
}

struct zg_handled *zg_handled_around_frame(const uint64_t *frame) {
    struct zg_registers registers = {.known = UINT64_C(1) << ZG_ARCH_SP | UINT64_C(1) << ZG_ARCH_FP, .pc = frame[1]};
    registers.value[ZG_ARCH_SP] = zg_arch_caller_sp(frame);
    registers.value[ZG_ARCH_FP] = frame[0];
    return around(&registers, false);
}

struct zg_handled *zg_handled_of_other_thread(const struct zg_handled *before) {
    int tid = zg_os_tid(), pid = zg_os_pid();
    for (uint64_t i = before ? (uint64_t)(before - calls) + 1 : 0; i < CALLS; i++) {
        struct zg_handled *handled = &calls[i];
        if (__atomic_load_n(&handled->is_taken, __ATOMIC_ACQUIRE) && handled->kind != zg_handled_signal &&
            !handled->is_reported && handled->pid == pid && handled->tid != tid)
            return handled;
    }
    return NULL;
}

void zg_handled_jump(uint64_t sp) {
    struct zg_thread *thread = zg_thread_current_or_null();
    struct zg_handled *handled = thread ? thread->handled : NULL;
    if (!handled || handled->pid != zg_os_pid()) return;
    if (is_outside(handled, thread, sp)) note_recovered(thread, handled);
}

// Exceptions, setcontext and jumps in the program's own code leave a handler without a call of zg_handled_jump.
void zg_handled_check_left(const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_current_or_null();
    struct zg_handled *handled = thread ? thread->handled : NULL;
    if (!handled || handled->pid != zg_os_pid()) return;
    if (is_on_alternate_stack(handled, (uint64_t)frame) || zg_handled_around_frame(frame))
        zg_thread_request_deferred(thread, zg_deferred_handler_check);
}
