// A program may leave a signal handler by a jump and never return to the interrupted code. In the runtime, that would
// leave locks held and blocks half moved, so the runtime's call is finished first: the interrupted registers are
// restored, as by a return from the handler but with signals blocked, and the return address of the published function
// leads to the jump.
// Signal context; takes no lock.

#define _GNU_SOURCE
#include "entry/jump.h"

#include <signal.h>

#include "faults/handled.h"
#include "faults/signals.h"
#include "images/module.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "threads/thread.h"
#include "stacks/unwind.h"

// Maximum number of bytes of stack that a call of the runtime uses below the frame of its published function.
enum { MOST_BELOW = 64 << 10 };

// Signals that instructions raise. They stay unblocked, because a fault whose signal is blocked ends the process.
static const uint64_t by_instructions = UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1) |
                                        UINT64_C(1) << (SIGTRAP - 1) | UINT64_C(1) << (SIGILL - 1) |
                                        UINT64_C(1) << (SIGFPE - 1) | UINT64_C(1) << (SIGSYS - 1);

// Runs when the published function returns. The stack below that function's frame is free, because the call is over.
static void jump_now(void) {
    struct zg_jump jump = zg_thread_self->jump;
    zg_os_mask_signals(SIG_SETMASK, jump.mask, NULL);
    jump.function(jump.environment, jump.value);
    __builtin_trap();
}

static bool is_our_code(uint64_t address) {
    struct zg_module ours;
    return zg_module_find_unwind((uint64_t)jump_now, &ours) && address >= ours.start && address < ours.end;
}

static bool is_code(uint64_t address) {
    struct zg_module module;
    return zg_module_find_unwind(address, &module);
}

void zg_jump_out(zg_jump_function *function, void *environment, int value, const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_current_or_null();
    uint64_t sp, pc;
    zg_arch_jump_target(environment, &sp, &pc);
    zg_signals_leave_handler(sp);
    zg_handled_jump(sp);
    if (!thread || !thread->in_runtime || !thread->frame || !thread->number || thread->tid != zg_os_tid()) return;
    struct zg_caller caller = {frame[1], zg_arch_caller_sp(frame), frame[0]};
    uint64_t entered = (uint64_t)thread->frame;
    struct zg_interruption interruption;
    zg_unwind_find_signal(caller, entered - MOST_BELOW, entered + 1, sp, &interruption);
    if (!interruption.context || *zg_arch_return_word(thread->frame) == (uint64_t)zg_arch_jump_landing) return;
    // The jump stays within the handler, or leads to another stack from which the handler may resume. The runtime's
    // call then continues when the handler returns.
    if (interruption.place == zg_place_within) return;
    if (interruption.place == zg_place_elsewhere && is_code(pc) &&
        sp - thread->stack.low >= thread->stack.high - thread->stack.low)
        return;
    // Do not resume an instruction that faulted (for example by a stack overflow): it would fault again. A fault is
    // recognized only in the frame of the runtime's handler. If another handler got the signal, the resumed instruction
    // faults again, and then the runtime's handler gets the signal.
    if (is_our_code(interruption.handler) && zg_arch_is_fault((void *)interruption.context)) return;
    thread->jump = (struct zg_jump){function, environment, value, 0};
    zg_os_mask_signals(SIG_SETMASK, ~by_instructions, &thread->jump.mask);
    zg_arch_landed = jump_now;
    *zg_arch_return_word(thread->frame) = (uint64_t)zg_arch_jump_landing;
    zg_arch_resume((void *)interruption.context, ~by_instructions);
}
