// The program's view of SIGSEGV, SIGBUS, SIGABRT (if Swift runs) and, with collect=crashes, other signals that end
// programs. The runtime's handler stays installed. The program's action is kept here, and its handler runs after the
// runtime's. zg_signals_action and zg_signals_stack replace sigaction and sigaltstack. Any thread; one small lock.

#ifndef ZG_SIGNALS_H
#define ZG_SIGNALS_H

#define _GNU_SOURCE
#include <signal.h>

#include "platform/base.h"

typedef void zg_signals_handler(int signal, siginfo_t *info, void *context);
// Installs `for_faults` as the handler of SIGSEGV and SIGBUS, and with collect=crashes of the other signals.
void zg_signals_start(zg_signals_handler *for_faults);
void zg_signals_fork_prepare(void);
void zg_signals_fork_done(bool child);
// Call around zg_signals_fork_prepare and zg_signals_fork_done: blocks all signals in the calling thread. One fork at a
// time.
void zg_signals_fork_hold(void);
void zg_signals_fork_release(void);
// Manages SIGABRT as well: the Swift runtime ends the program with it when it detects a use of a freed object itself.
// Constructors of Swift code may call this before zg_signals_start.
void zg_signals_watch_aborts(zg_signals_handler *for_faults);
int zg_signals_action(int signal, const struct sigaction *action, struct sigaction *old);
int zg_signals_stack(const stack_t *stack, stack_t *old);
// Handles rt_sigaction and sigaltstack that are called by number through libc's syscall. False: the caller must make
// the system call.
bool zg_signals_by_number(long number, long a, long b, long c, long d, long *result);
// Replaces sigprocmask and pthread_sigmask. Returns an error number.
int zg_signals_mask(int how, const sigset_t *set, sigset_t *old);
// Fault signals that the program believes to be blocked in the calling thread. Pass this record on to new threads: they
// inherit the signal mask.
struct zg_hidden_faults {
    uint64_t signals, with;
};
struct zg_hidden_faults zg_signals_hidden(void);
void zg_signals_hide(struct zg_hidden_faults hidden);
// Unblocks fault signals that are blocked in a new thread, and records that the program believes them to be blocked.
// libc's threads that call the function of a timer or a message queue (SIGEV_THREAD) begin with all signals blocked.
void zg_signals_unblock_inherited(void);
// Whether the program believes that this signal is blocked in the interrupted context.
bool zg_signals_is_blocked(int signal, const void *context);
// Postpones a sent signal if the program believes that the signal is blocked. Otherwise returns false.
bool zg_signals_defer_blocked(int signal, siginfo_t *info, void *context);
// Blocks a sent signal in the interrupted context and sends it again, so that it stays pending until the program
// unblocks it.
void zg_signals_defer(int signal, siginfo_t *info, void *context);
// Sets an alternate stack for the calling thread, unless it has one.
void zg_signals_add_stack(void *start, uint64_t bytes);
// Removes the stack that zg_signals_add_stack has set.
void zg_signals_remove_stack(void *start);
// Removes the calling thread's alternate stack if it is the runtime's and the program now manages alternate stacks.
void zg_signals_release_stack(void);

// Whether the program would die of this signal: it has no handler, or only the Swift runtime's handler, which prints a
// report.
bool zg_signals_is_deadly(int signal);
// Whether the kernel's default action follows, and no handler of the program is called.
bool zg_signals_is_default(int signal);
// Whether this is a Go program that the signal ends: Go's handler turns faults of Go code into panics, but ends the
// program for a fault at a `pc` outside of Go code.
bool zg_signals_ends_go(int signal, uint64_t pc);
// Whether a handler of the program is called for this signal.
bool zg_signals_has_handler(int signal);
// Whether the program ends by this signal now.
bool zg_signals_ends(int signal, const siginfo_t *info, const void *context);
// Call when a finding explains why the program ends: no other finding is made of the end.
void zg_signals_note_explained(void);
bool zg_signals_is_explained(void);
// Whether the program ends by this signal now and no finding explains why.
bool zg_signals_is_crash(int signal, const siginfo_t *info, const void *context);
// Whether the program continues after a signal that it has raised itself: it has a handler for the signal, or ignores
// the signal.
bool zg_signals_goes_on(int signal, const siginfo_t *info);
// Ends the process as abort does. Without a SIGABRT handler of the program, no other thread begins a report any more.
void zg_signals_abort(void) __attribute__((noreturn));
// Unblocks or blocks the fault signals in the runtime's handler. While they are unblocked, a fault in the handler
// enters the handler again. While they are blocked, such a fault ends the process.
void zg_signals_unblock_faults(void);
void zg_signals_block_faults(void);
// Call when the thread is about to jump to a frame at `sp`. Restores the program's alternate stack if the jump leaves a
// handler that was moved to the reserve stack.
void zg_signals_leave_handler(uint64_t sp);
// Like zg_signals_leave_handler, for a jump that the runtime did not see. `context`: the context that the runtime's
// handler has interrupted.
void zg_signals_restore_moved_stack(void *context);
// Call when the thread has left its handler other than by returning. Restores the whole alternate stack.
void zg_signals_restore_lowered_stack(void);
// Whether a signal of this mask (one bit each) is blocked and pending for the thread.
bool zg_signals_is_pending(uint64_t signals);
// Whether the signal is SIGTRAP of a watchpoint of the runtime.
bool zg_signals_is_watch(const siginfo_t *info);
// Whether a watchpoint's SIGTRAP was blocked at the access, so that it is delivered late.
bool zg_signals_is_late_watch(const siginfo_t *info);
// Call before the program executes another one, which would die of a pending SIGTRAP of a watchpoint.
void zg_signals_before_exec(void);
// Calls the program's handler for a signal, on the stack and with the mask that the program asked for. Without a
// handler the default action follows when the runtime's handler returns. Signal context.
void zg_signals_call_program_handler(int signal, siginfo_t *info, void *context);
// Like zg_signals_call_program_handler, for a signal about which a finding was reported. Skips the Swift runtime's own
// crash report if it would be redundant; the program dies of the signal all the same. `is_reported`: the finding was
// written to standard error with symbol names.
void zg_signals_end_reported(int signal, siginfo_t *info, void *context, bool is_reported);

#endif
