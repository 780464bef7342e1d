// The program's view of SIGSEGV, SIGBUS, (where Swift runs) SIGABRT and, with collect=crashes, what else ends programs by itself: our handler stays installed, the program's is kept here and runs after it.
// zg_signals_action and zg_signals_stack stand in for sigaction and sigaltstack. Any thread; one small lock.

#ifndef ZG_SIGNALS_H
#define ZG_SIGNALS_H

#define _GNU_SOURCE
#include <signal.h>

#include "platform/base.h"

typedef void zg_signals_handler(int signal, siginfo_t *info, void *context);
// Installs the handler of faults for SIGSEGV and SIGBUS.
void zg_signals_start(zg_signals_handler *for_faults);
void zg_signals_fork_prepare(void);
void zg_signals_fork_done(bool child);
// Around both: the calling thread gets no signal. One fork at a time.
void zg_signals_fork_hold(void);
void zg_signals_fork_release(void);
// SIGABRT as well: the Swift runtime ends the program with it where it notices a dead object itself.
// Constructors of Swift code may come before zg_signals_start.
void zg_signals_watch_aborts(zg_signals_handler *for_faults);
int zg_signals_action(int signal, const struct sigaction *action, struct sigaction *old);
int zg_signals_stack(const stack_t *stack, stack_t *old);
// sigaction and sigaltstack as libc's syscall takes them, by their numbers. False: the kernel is to be asked.
bool zg_signals_by_number(long number, long a, long b, long c, long d, long *result);
// sigprocmask. Returns an error number.
int zg_signals_mask(int how, const sigset_t *set, sigset_t *old);
// What the calling thread believes about the signals of faults, for a thread that it makes, which inherits the mask.
struct zg_hidden_faults {
    uint64_t signals, with;
};
struct zg_hidden_faults zg_signals_hidden(void);
void zg_signals_hide(struct zg_hidden_faults hidden);
// The program believes that this signal is held back in the interrupted context.
bool zg_signals_holds(int signal, const void *context);
// A signal that somebody has sent waits, as the program believes. False: it is not held back.
bool zg_signals_hold(int signal, siginfo_t *info, void *context);
// A signal that somebody has sent waits from now on until what it has interrupted lets it through.
void zg_signals_postpone(int signal, siginfo_t *info, void *context);
// Gives the calling thread an alternate stack where it has none. / Takes it away again.
void zg_signals_add_stack(void *start, uint64_t bytes);
void zg_signals_remove_stack(void *start);
// Where the program has been left the alternate stacks since: takes the calling thread's away, if it is ours.
void zg_signals_release_stack(void);

// The program would die of this signal (it has no handler of its own, or the Swift runtime's, which only says what it dies of).
bool zg_signals_is_deadly(int signal);
// The kernel's default action follows: nothing of the program's is called.
bool zg_signals_is_default(int signal);
// Go's runtime, of a program of Go, gets this signal: one that an instruction at `pc` outside of Go has raised ends the program, while those of Go
// become panics.
bool zg_signals_ends_go(int signal, uint64_t pc);
// A handler of the program's is called for this signal.
bool zg_signals_has_handler(int signal);
// The program ends by this signal now.
bool zg_signals_ends(int signal, const siginfo_t *info, const void *context);
// A finding has said why: no other is to.
void zg_signals_note_explained(void);
bool zg_signals_is_explained(void);
// The same, and no finding has said why.
bool zg_signals_is_crash(int signal, const siginfo_t *info, const void *context);
// The program has a handler for this signal that it has raised itself, or ignores it.
bool zg_signals_goes_on(int signal, const siginfo_t *info);
// Ends the process as abort does. Where the program has no handler for that no other thread begins a report any more.
void zg_signals_abort(void) __attribute__((noreturn));
// While a fault is worked on, another one comes to our handler; in the rest of the handler it ends the process.
void zg_signals_unblock_faults(void);
void zg_signals_block_faults(void);
// A handler of the program's is left by a jump to a frame at `sp`. / Our handler has interrupted this context.
void zg_signals_leave_handler(uint64_t sp);
void zg_signals_came_from(void *context);
// The handler that this thread was in was left in another way than by its return.
void zg_signals_left_handler(void);
// A signal of the mask, one bit each, waits for the thread because it is held back.
bool zg_signals_is_pending(uint64_t signals);
// Hands a signal on to the program's handler, on the stack and with the mask that it asked for; where it has none the
// default action follows when the handler returns. Signal context.
void zg_signals_hand_on(int signal, siginfo_t *info, void *context);
// The same for a signal that a finding was reported about: the Swift runtime's own crash report does not follow where that
// is superfluous, and the program dies of the signal as it would after it. `is_said`: with names, to standard error.
void zg_signals_hand_on_reported(int signal, siginfo_t *info, void *context, bool is_reported);

#endif
