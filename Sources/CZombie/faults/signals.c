// Signal actions: calls the runtime's handler first, then the program's. Any thread; the table's lock is held for a few
// stores.

#define _GNU_SOURCE
#include "faults/signals.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "blocks/tags.h"
#include "findings/report.h"
#include "heap/watchpoints.h"
#include "images/loader.h"
#include "images/module.h"
#include "pages/protect.h"
#include "platform/arch.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "threads/thread.h"
#include "settings/config.h"
#include "settings/stats.h"

#ifndef SA_EXPOSE_TAGBITS
#define SA_EXPOSE_TAGBITS 0x800
#endif

// Signals from FIRST_COLLECTED on end programs without being faults, so they are managed with collect=crashes only.
// Programs use SIGSYS to emulate system calls. For SIGSYS and the limit signals the runtime's handler is installed only
// while the program has none.
static const int managed_signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGTRAP, SIGFPE, SIGSYS, SIGXCPU, SIGXFSZ};
enum { MANAGED = ZG_ARRAY_COUNT(managed_signals), FIRST_COLLECTED = 3 };

// Last bytes of a thread's reserve stack, which are not part of the alternate stack. The runtime calls sigaltstack on
// these bytes, because the kernel refuses the call on the alternate stack itself.
enum { RESERVE_TAIL_BYTES = 1 << 10 };

// Actions that the program asked for. Two copies and the index of the valid one, so that handlers read without a lock.
static struct {
    struct sigaction copy[2];
    uint32_t current;
} program_actions[MANAGED];
static struct zg_lock lock;
// Owner of the threads' alternate stacks. At first the runtime owns them, for its own handler. Once the program has a
// handler on an alternate stack, the program owns them, so that the handler runs where it would without the runtime.
// Shared: a language runtime that makes its own system calls (Go) was loaded late, and takes the runtime's stacks for
// the program's.
static enum { stacks_are_ours, stacks_are_shared, stacks_are_the_programs } stacks;
static zg_signals_handler *handler; // the runtime's own handler
// Bit i: managed_signals[i] is managed. Its handler in the kernel is the runtime's or, as is_for_us says, the
// program's.
static uint32_t installed;
// Whether the runtime's handler gets the SIGTRAP of watchpoints (heap/watchpoints.h).
static bool watches;
// True if SWIFT_BACKTRACE asks for Swift's crash report, and until the environment was read.
static bool swift_was_asked = true;
// Process that the table describes. A child of vfork shares the memory, but has its own signal actions.
static int owner;

typedef int (*sigaction_function)(int, const struct sigaction *, struct sigaction *);
typedef int (*sigmask_function)(int, const sigset_t *, sigset_t *);

static int real_action(int signal, const struct sigaction *action, struct sigaction *old) {
    static sigaction_function real;
    if (!real) real = (sigaction_function)zg_loader_next("sigaction");
    return real(signal, action, old);
}

static sigmask_function libcs_mask(void) {
    static sigmask_function real;
    static bool is_known;
    if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)) {
        real = (sigmask_function)zg_loader_next("pthread_sigmask");
        __atomic_store_n(&is_known, true, __ATOMIC_RELEASE);
    }
    return real;
}

// Changes the mask for the program, through libc if possible. Returns an error number, as libc does.
static int real_mask(int how, const sigset_t *set, sigset_t *old) {
    sigmask_function real = libcs_mask();
    return real ? real(how, set, old) : -(int)zg_arch_syscall(SYS_rt_sigprocmask, how, (long)set, (long)old, 8, 0, 0);
}

static int real_stack(const stack_t *stack, stack_t *old) {
    return (int)zg_arch_syscall(SYS_sigaltstack, (long)stack, (long)old, 0, 0, 0, 0);
}

static int index_of(int signal) {
    for (int i = 0; i < (int)MANAGED; i++)
        if (managed_signals[i] == signal) return i;
    return -1;
}

static struct sigaction wanted_action(int index) {
    return program_actions[index].copy[__atomic_load_n(&program_actions[index].current, __ATOMIC_ACQUIRE)];
}

static void set_program_action(int index, const struct sigaction *action) {
    uint32_t other = !program_actions[index].current;
    program_actions[index].copy[other] = *action;
    __atomic_store_n(&program_actions[index].current, other, __ATOMIC_RELEASE);
}

// Installs the runtime's handler: on the alternate stack, with all signals blocked. SA_RESTART is taken from the
// program's flags, because a sent signal may interrupt a system call.
static int install(int signal, int program_flags) {
    struct sigaction ours = {.sa_sigaction = handler};
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (program_flags & SA_RESTART);
    // The flag exists since Linux 5.11; older kernels ignore it.
    if (zg_tags_are_on()) ours.sa_flags |= SA_EXPOSE_TAGBITS;
    sigfillset(&ours.sa_mask);
    return real_action(signal, &ours, NULL);
}

// Signals that were blocked before; unknown if a seccomp filter refuses the call.
struct mask {
    uint64_t signals;
    bool is_known;
};

// Takes the lock with all signals blocked: a handler that interrupts the lock's holder would deadlock in sigaction.
static void take_lock(struct mask *before) {
    before->is_known = zg_os_mask_signals(SIG_BLOCK, ~UINT64_C(0), &before->signals);
    zg_lock_take(&lock);
}

static void restore_mask(const struct mask *before) {
    if (before->is_known) zg_os_restore_signals(before->signals);
}

static void drop_lock(const struct mask *before) {
    zg_lock_drop(&lock);
    restore_mask(before);
}

static bool is_swift_crash_handler(const struct sigaction *action);

// Signals that some thread keeps unblocked while the program believes that they are blocked (zg_signals_mask). For
// these signals, the runtime's handler is called first from then on.
static uint64_t ever_hidden;

static bool is_for_us(int index, const struct sigaction *action) {
    int signal = managed_signals[index];
    bool is_crash = signal == SIGILL || signal == SIGTRAP || signal == SIGFPE;
    return index < FIRST_COLLECTED || (is_crash && zg_config.collect & zg_collect_crashes) ||
           action->sa_handler == SIG_DFL || is_swift_crash_handler(action) ||
           (__atomic_load_n(&ever_hidden, __ATOMIC_ACQUIRE) >> (managed_signals[index] - 1) & 1);
}

static void manage(int signal) {
    int index = index_of(signal);
    struct mask before;
    struct sigaction old;
    bool may_ask = zg_os_may_call(SYS_rt_sigaction); // a seccomp filter may forbid it
    take_lock(&before);
    // Leave an ignored SIGABRT alone: programs that this program executes inherit the ignored action.
    if (may_ask && !(installed >> index & 1) && real_action(signal, NULL, &old) == 0 &&
        !(signal == SIGABRT && old.sa_handler == SIG_IGN)) {
        set_program_action(index, &old);
        if (!is_for_us(index, &old) || install(signal, old.sa_flags) == 0)
            __atomic_fetch_or(&installed, 1u << index, __ATOMIC_RELEASE);
    }
    drop_lock(&before);
    if (index >= 2 || installed >> index & 1) return;
    zg_stats_degrade(zg_degradation_no_fault_handler);
    zg_protection_stop();
}

// Go's runtime asks the kernel itself, past libc, whether a thread has an alternate stack, and dies of a signal on any
// other stack. Every Go program or library that calls C exports this function.
static const char exported_by_go[] = "_cgo_topofstack";

static bool is_program_of_go;

static bool is_ours(const stack_t *stack) {
    struct zg_thread *thread = zg_thread_current_or_null();
    return thread && thread->alternate_stack && stack->ss_sp == thread->alternate_stack;
}

void zg_signals_release_stack(void) {
    if (__atomic_load_n(&stacks, __ATOMIC_RELAXED) != stacks_are_the_programs) return;
    struct zg_thread *thread = zg_thread_current_or_null();
    if (!thread || !thread->alternate_stack) return;
    stack_t now, none = {.ss_flags = SS_DISABLE};
    // The kernel refuses the change while a handler runs on this stack: try again later.
    if (zg_os_alternate_stack(NULL, &now) == 0 && is_ours(&now) && zg_os_alternate_stack(&none, NULL) != 0) return;
    thread->alternate_stack = NULL;
}

static void leave_stacks_to_program(void) {
    __atomic_store_n(&stacks, stacks_are_the_programs, __ATOMIC_RELAXED);
    zg_signals_release_stack();
}

static struct mask before_fork;
void zg_signals_fork_hold(void) {
    before_fork.is_known = zg_os_mask_signals(SIG_BLOCK, ~UINT64_C(0), &before_fork.signals);
}
void zg_signals_fork_prepare(void) { zg_lock_take(&lock); }
void zg_signals_fork_done(bool child) {
    if (child) owner = zg_os_pid();
    if (child) zg_lock_reset(&lock);
    else zg_lock_drop(&lock);
}
void zg_signals_fork_release(void) { restore_mask(&before_fork); }

void zg_signals_start(zg_signals_handler *for_faults) {
    handler = for_faults;
    owner = zg_os_pid();
    libcs_mask(); // find libc's function now, before a handler needs it
    char scratch[8];
    const char *backtrace = zg_config_variable("SWIFT_BACKTRACE", scratch, sizeof scratch);
    swift_was_asked = backtrace && *backtrace;
    is_program_of_go = zg_module_program_function(exported_by_go) != NULL;
    if (is_program_of_go) leave_stacks_to_program();
    manage(SIGSEGV);
    manage(SIGBUS);
    if (zg_config.collect & zg_collect_crashes)
        for (int i = 2; i < (int)MANAGED; i++) manage(managed_signals[i]);
    // Go's runtime installs a handler past libc, and ends the program for a SIGTRAP that this handler does not expect.
    if (zg_watchpoints_may_be() && !is_program_of_go) {
        int index = index_of(SIGTRAP);
        if (!(installed >> index & 1)) manage(SIGTRAP);
        // A handler that the program has already installed keeps the signal.
        struct sigaction wanted = wanted_action(index);
        watches = installed >> index & 1 && is_for_us(index, &wanted);
        if (watches) zg_watchpoints_start((uint64_t)handler);
    }
    // This condition recognizes a Go library that was loaded before the runtime.
    if (wanted_action(index_of(SIGSEGV)).sa_flags & SA_ONSTACK && stacks == stacks_are_ours &&
        zg_module_function(exported_by_go))
        __atomic_store_n(&stacks, stacks_are_shared, __ATOMIC_RELAXED);
    zg_unwind_recovers = (installed & 3) == 3; // both SIGSEGV and SIGBUS are managed
}

void zg_signals_watch_aborts(zg_signals_handler *for_faults) {
    handler = for_faults;
    if (!(__atomic_load_n(&installed, __ATOMIC_ACQUIRE) >> index_of(SIGABRT) & 1)) manage(SIGABRT);
}

// Call when the program installs a handler with SA_ONSTACK.
static void note_on_stack(void) {
    if (!zg_config.handle_signals || __atomic_load_n(&stacks, __ATOMIC_RELAXED) != stacks_are_ours) return;
    if (zg_module_function(exported_by_go)) {
        __atomic_store_n(&stacks, stacks_are_shared, __ATOMIC_RELAXED);
    } else {
        leave_stacks_to_program();
        zg_stats_degrade(zg_degradation_no_alternate_stack);
    }
}

static int action_of_other(int signal, const struct sigaction *action, struct sigaction *old) {
    if (action && action->sa_flags & SA_ONSTACK) note_on_stack();
    return real_action(signal, action, old);
}

// Calls sigaction in a child that shares memory with its parent (vfork, clone): changes the child's actions in the
// kernel, but not the table.
static int action_in_child(int signal, const struct sigaction *action, struct sigaction *old) {
    int index = index_of(signal), result = real_action(signal, action, old);
    if (result == 0 && old && index >= 0 && (old->sa_flags & SA_SIGINFO) && old->sa_sigaction == handler)
        *old = wanted_action(index);
    return result;
}

int zg_signals_action(int signal, const struct sigaction *action, struct sigaction *old) {
    if (zg_config.handle_signals && owner && zg_os_pid() != owner) return action_in_child(signal, action, old);
    int index = index_of(signal);
    if (index < 0 || !(__atomic_load_n(&installed, __ATOMIC_ACQUIRE) >> index & 1))
        return action_of_other(signal, action, old);
    struct mask before;
    if (action && !is_for_us(index, action) && action->sa_flags & SA_ONSTACK) note_on_stack();
    take_lock(&before);
    struct sigaction previous = wanted_action(index);
    if (action) {
        set_program_action(index, action);
        // The program's own handler must not get the signals of watchpoints.
        if (signal == SIGTRAP && watches && !is_for_us(index, action)) zg_watchpoints_pause();
        if (!is_for_us(index, action)) real_action(signal, action, NULL);
        // The program's previous handler may be installed in the kernel: replace it by the runtime's.
        else if (index >= FIRST_COLLECTED) install(signal, action->sa_flags);
        else if ((action->sa_flags ^ previous.sa_flags) & SA_RESTART) install(signal, action->sa_flags);
    }
    drop_lock(&before);
    if (old) *old = previous;
    return 0;
}

// A fault whose signal is blocked ends the process without calling a handler, so nothing would be reported. Many
// programs block all signals in all threads but one. The fault signals therefore stay unblocked, and the thread records
// that the program believes that they are blocked, together with the other signals of the mask. If a jump or a context
// restores another mask, the other signals do not match and the record is void. If the mask has no other signals, no
// signal is kept unblocked.
static const uint64_t faults = UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1);

// With collect=crashes, other signals that instructions raise are treated in the same way, but only while the program
// has no handler for them: the kernel would call the handler although the program believes that the signal is blocked.
// If there may be watchpoints, SIGTRAP stays unblocked even without collect=crashes: the kernel delivers a blocked
// SIGTRAP too late to find the instruction.
static uint64_t other_open_signals(void) {
    static const int numbers[] = {SIGILL, SIGTRAP, SIGFPE, SIGSYS};
    uint64_t signals = 0;
    bool collects = zg_config.collect & zg_collect_crashes;
    if (!collects && !watches) return 0;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(numbers); i++) {
        if (!collects && numbers[i] != SIGTRAP) continue;
        int index = index_of(numbers[i]);
        struct sigaction action = wanted_action(index);
        if ((__atomic_load_n(&installed, __ATOMIC_ACQUIRE) >> index & 1) && is_for_us(index, &action))
            signals |= UINT64_C(1) << (numbers[i] - 1);
    }
    return signals;
}

static uint64_t believed(const struct zg_thread *thread, uint64_t mask) {
    return (thread->hidden_with & ~mask) ? 0 : thread->faults_hidden;
}

static struct zg_thread *hiding_thread(void) {
    struct zg_thread *thread = zg_thread_current_or_null();
    uint32_t both = 1u << index_of(SIGSEGV) | 1u << index_of(SIGBUS);
    if (!thread || (__atomic_load_n(&installed, __ATOMIC_ACQUIRE) & both) != both) return NULL;
    return thread->tid == zg_os_tid() ? thread : NULL; // NULL in a child that shares the memory
}

// Records the signals of `wanted` that stay unblocked, except those in `blocked`. Returns the mask for the kernel.
static uint64_t record_hidden(struct zg_thread *thread, uint64_t wanted, uint64_t blocked) {
    uint64_t held_back = wanted & ~(UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1));
    uint64_t kept_open = faults | other_open_signals();
    if (!(held_back & ~kept_open)) kept_open = faults;
    uint64_t rest = held_back & ~kept_open;
    uint64_t hidden = rest ? wanted & kept_open & ~blocked : 0;
    // Store the record before the mask changes: a signal handler that runs in between recognizes that the record does
    // not match the mask.
    thread->hidden_with = rest;
    thread->faults_hidden = hidden;
    if (hidden & ~faults) __atomic_fetch_or(&ever_hidden, hidden & ~faults, __ATOMIC_RELEASE);
    ZG_SIGNAL_FENCE();
    return wanted & ~hidden;
}

void zg_signals_unblock_inherited(void) {
    struct zg_thread *thread = hiding_thread();
    uint64_t mask;
    if (!thread || !zg_os_mask_signals(SIG_BLOCK, 0, &mask) || !(mask & faults)) return;
    zg_os_mask_signals(SIG_SETMASK, record_hidden(thread, mask, 0), NULL);
}

int zg_signals_mask(int how, const sigset_t *set, sigset_t *old) {
    struct zg_thread *thread = hiding_thread();
    if (!thread) return real_mask(how, set, old);
    sigset_t now, mask;
    uint64_t before = 0, wanted_now = 0, open;
    sigemptyset(&now);
    int error = real_mask(SIG_BLOCK, NULL, &now);
    if (error) return error;
    __builtin_memcpy(&before, &now, sizeof before);
    uint64_t held = before | believed(thread, before);
    if (set) {
        __builtin_memcpy(&wanted_now, set, sizeof wanted_now);
        if (how == SIG_BLOCK) wanted_now |= held;
        else if (how == SIG_UNBLOCK) wanted_now = held & ~wanted_now;
        else if (how != SIG_SETMASK) return EINVAL;
        // libc reserves signals 32 and 33.
        open = record_hidden(thread, wanted_now & ~(UINT64_C(3) << 31), before);
        sigemptyset(&mask);
        __builtin_memcpy(&mask, &open, sizeof open);
        error = real_mask(SIG_SETMASK, &mask, NULL);
    }
    if (old) __builtin_memcpy(old, &held, sizeof held);
    return error;
}

struct zg_hidden_faults zg_signals_hidden(void) {
    struct zg_thread *thread = zg_thread_current_or_null();
    return thread ? (struct zg_hidden_faults){thread->faults_hidden, thread->hidden_with}
                  : (struct zg_hidden_faults){0, 0};
}

void zg_signals_hide(struct zg_hidden_faults hidden) {
    struct zg_thread *thread = zg_thread_current_or_null();
    if (!thread) return;
    thread->faults_hidden = hidden.signals;
    thread->hidden_with = hidden.with;
}

// The kernel's siginfo of SIGTRAP with code TRAP_PERF, which older C libraries do not declare.
struct watch_info {
    int signal, error, code;
    uint64_t address, mark;
    uint32_t type, flags;
};

static struct watch_info watch_info_of(const siginfo_t *info) {
    struct watch_info watch;
    __builtin_memcpy(&watch, info, sizeof watch);
    return watch;
}

bool zg_signals_is_watch(const siginfo_t *info) {
    enum { OF_PERF_EVENT = 6 }; // TRAP_PERF
    return watches && info->si_code == OF_PERF_EVENT && watch_info_of(info).mark == ZG_OS_WATCH_MARK;
}

bool zg_signals_is_late_watch(const siginfo_t *info) {
    enum { ASYNC = 1 }; // TRAP_PERF_FLAG_ASYNC
    return watch_info_of(info).flags & ASYNC;
}

void zg_signals_before_exec(void) {
    siginfo_t info;
    if (!watches || !zg_watchpoints_are_open() || !zg_signals_is_pending(UINT64_C(1) << (SIGTRAP - 1))) return;
    if (zg_os_take_signal(SIGTRAP, &info) && !zg_signals_is_watch(&info)) zg_os_raise_again(SIGTRAP, &info);
}

static uint64_t mask_of(const void *context) {
    uint64_t mask;
    __builtin_memcpy(&mask, &((const ucontext_t *)context)->uc_sigmask, sizeof mask);
    return mask;
}

bool zg_signals_is_blocked(int signal, const void *context) {
    struct zg_thread *thread = zg_thread_current_or_null();
    return thread && (believed(thread, mask_of(context)) >> (signal - 1) & 1);
}

bool zg_signals_defer_blocked(int signal, siginfo_t *info, void *context) {
    if (!zg_signals_is_blocked(signal, context)) return false;
    zg_thread_current_or_null()->faults_hidden &= ~(UINT64_C(1) << (signal - 1));
    zg_signals_defer(signal, info, context);
    return true;
}

void zg_signals_defer(int signal, siginfo_t *info, void *context) {
    // Block the signal in the kernel, and send it again. If it was sent to this thread, it stays pending there; if it
    // was sent to the process, any thread may take it.
    uint64_t bit = UINT64_C(1) << (signal - 1), mask = mask_of(context) | bit;
    zg_os_mask_signals(SIG_BLOCK, bit, NULL);
    __builtin_memcpy(&((ucontext_t *)context)->uc_sigmask, &mask, sizeof mask);
    if (info->si_code == SI_TKILL) zg_os_raise_again(signal, info);
    else zg_arch_syscall(SYS_rt_sigqueueinfo, zg_os_pid(), signal, (long)info, 0, 0, 0);
}

static bool is_on_reserve(const struct zg_thread *thread, uint64_t sp) {
    return sp - (uint64_t)thread->reserve_stack < thread->reserve_stack_bytes;
}

// Sets the program's alternate stack in the kernel again, after a handler was moved from that stack to the reserve
// stack. Must not run on the reserve stack.
static void give_back_stack(struct zg_thread *thread) {
    stack_t theirs = {.ss_sp = thread->moved.start, .ss_size = thread->moved.bytes};
    thread->moved.start = NULL;
    real_stack(&theirs, NULL);
}

static void give_back_on_tail(void *thread, void *unused, void *unused_as_well) {
    (void)unused, (void)unused_as_well;
    give_back_stack(thread);
}

// Calls give_back_stack on the reserve stack's last bytes, which are not part of the kernel's alternate stack. Blocks
// signals meanwhile: their frames would overwrite the caller's at the top of the reserve stack.
static bool give_back_from_reserve(struct zg_thread *thread) {
    uint64_t mask;
    if (!zg_os_mask_signals(SIG_SETMASK, ~faults, &mask)) return false;
    zg_arch_call_on_stack(give_back_on_tail, thread, NULL, NULL,
                          (char *)thread->reserve_stack + thread->reserve_stack_bytes + RESERVE_TAIL_BYTES);
    zg_os_mask_signals(SIG_SETMASK, mask, NULL);
    return true;
}

// Returns the calling thread if it continues at `sp` and has left a handler that was moved to the reserve stack.
// Otherwise NULL.
static struct zg_thread *thread_behind_moved(uint64_t sp) {
    struct zg_thread *thread = zg_thread_current_or_null();
    if (ZG_LIKELY(!thread || !thread->moved.start)) return NULL;
    return thread->tid == zg_os_tid() && !is_on_reserve(thread, sp) ? thread : NULL;
}

void zg_signals_leave_handler(uint64_t sp) {
    struct zg_thread *thread = thread_behind_moved(sp);
    if (!thread) return;
    if (is_on_reserve(thread, (uint64_t)__builtin_frame_address(0))) give_back_from_reserve(thread);
    else give_back_stack(thread);
}

void zg_signals_restore_moved_stack(void *context_pointer) {
    ucontext_t *context = context_pointer;
    struct zg_thread *thread = thread_behind_moved(zg_arch_stack_pointer(context));
    if (!thread) return;
    // The runtime did not notice that the program left the handler. Change the context, too: the kernel restores the
    // alternate stack from it.
    stack_t theirs = {.ss_sp = thread->moved.start, .ss_size = thread->moved.bytes};
    if (give_back_from_reserve(thread)) context->uc_stack = theirs;
}

int zg_signals_stack(const stack_t *stack, stack_t *old) {
    stack_t previous;
    struct zg_thread *thread = zg_thread_current_or_null();
    if (thread && thread->moved.start) {
        if (!is_on_reserve(thread, (uint64_t)&previous)) give_back_stack(thread);
        else if (old && !stack) {
            *old = (stack_t){.ss_sp = thread->moved.start, .ss_flags = SS_ONSTACK, .ss_size = thread->moved.bytes};
            return 0;
        }
    }
    int result = real_stack(stack, &previous);
    if (result < 0) {
        errno = -result;
        return -1;
    }
    if (thread && thread->lowered.start && previous.ss_sp == thread->lowered.start)
        previous.ss_size = thread->lowered.bytes;
    if (thread && stack && result >= 0) thread->lowered.start = NULL; // the program sets another stack
    bool was_ours = is_ours(&previous);
    if (old) {
        *old = previous;
        if (was_ours) *old = (stack_t){.ss_flags = SS_DISABLE};
    }
    // The program disables its stack: use the runtime's again.
    if (stack && (stack->ss_flags & SS_DISABLE) && thread && thread->alternate_stack) {
        stack_t ours = {.ss_sp = thread->alternate_stack, .ss_size = thread->alternate_stack_bytes};
        real_stack(&ours, NULL);
    }
    return 0;
}

// The kernel's struct sigaction. libc sets the restorer when the runtime's handler is installed.
struct kernel_action {
    void (*handler)(int);
    uint64_t flags;
    void (*restorer)(void);
    uint64_t mask;
};

static bool action_by_number(int signal, const void *wanted_now, void *old) {
    struct kernel_action theirs = {0};
    if (wanted_now && zg_os_read_memory(&theirs, (uint64_t)wanted_now, sizeof theirs) != sizeof theirs) return false;
    int index = index_of(signal);
    if (index < 0 || !(__atomic_load_n(&installed, __ATOMIC_ACQUIRE) >> index & 1) || zg_os_pid() != owner) {
        if (theirs.flags & SA_ONSTACK) note_on_stack();
        return false;
    }
    struct sigaction action = {.sa_handler = theirs.handler, .sa_flags = (int)theirs.flags}, before;
    __builtin_memcpy(&action.sa_mask, &theirs.mask, sizeof theirs.mask);
    zg_signals_action(signal, wanted_now ? &action : NULL, &before);
    if (!old) return true;
    struct kernel_action shown = {before.sa_handler, (uint64_t)(uint32_t)before.sa_flags, theirs.restorer, 0};
    __builtin_memcpy(&shown.mask, &before.sa_mask, sizeof shown.mask);
    __builtin_memcpy(old, &shown, sizeof shown);
    return true;
}

bool zg_signals_by_number(long number, long a, long b, long c, long d, long *result) {
    struct kernel_action probe;
    if (!zg_config.handle_signals || !owner) return false;
    if (number == SYS_sigaltstack) {
        stack_t old;
        // Unreadable memory: let the kernel return EFAULT.
        if (b && zg_os_read_memory(&old, (uint64_t)b, sizeof old) != sizeof old) return false;
        *result = zg_signals_stack((const stack_t *)a, (stack_t *)b);
        return true;
    }
    if (number != SYS_rt_sigaction || d != sizeof(uint64_t)) return false;
    if (c && zg_os_read_memory(&probe, (uint64_t)c, sizeof probe) != sizeof probe) return false;
    *result = 0;
    return action_by_number((int)a, (const void *)b, (void *)c);
}

void zg_signals_add_stack(void *start, uint64_t bytes) {
    struct zg_thread *thread = zg_thread_current_or_null();
    bytes -= RESERVE_TAIL_BYTES;
    thread->reserve_stack = start;
    thread->reserve_stack_bytes = bytes;
    if (__atomic_load_n(&stacks, __ATOMIC_RELAXED) == stacks_are_the_programs) return;
    thread->alternate_stack = start;
    thread->alternate_stack_bytes = bytes;
    stack_t old, ours = {.ss_sp = start, .ss_size = bytes};
    // The program already has an alternate stack.
    if (zg_os_alternate_stack(NULL, &old) == 0 && !(old.ss_flags & SS_DISABLE)) return;
    if (zg_os_alternate_stack(&ours, NULL) != 0) zg_stats_degrade(zg_degradation_no_alternate_stack);
}

void zg_signals_remove_stack(void *start) {
    stack_t old, none = {.ss_flags = SS_DISABLE};
    zg_thread_current_or_null()->alternate_stack = zg_thread_current_or_null()->reserve_stack = NULL;
    if (zg_os_alternate_stack(NULL, &old) == 0 && old.ss_sp == start) zg_os_alternate_stack(&none, NULL);
}

// Whether this is the Swift runtime's crash handler. No other handler has its mask, which blocks all signals but the
// seven that it handles (CrashHandlerLinux.cpp of Swift 5.9 to 6.3). It writes a backtrace and lets the program die of
// the signal.
static bool is_swift_crash_handler(const struct sigaction *action) {
    static const int handled[] = {SIGQUIT, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
    static const int flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    // Signals that cannot be blocked, even if the mask contains them: libc's own two, SIGKILL and SIGSTOP.
    uint64_t never = UINT64_C(3) << 31 | UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1), open = 0, mask;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(handled); i++) open |= UINT64_C(1) << (handled[i] - 1);
    __builtin_memcpy(&mask, &action->sa_mask, sizeof mask);
    return (mask | never) == ~open && (action->sa_flags & (flags | SA_RESETHAND | SA_RESTART)) == flags;
}

// Whether to skip Swift's crash report: if the options say so, or if the finding was reported with symbol names; but
// not if SWIFT_BACKTRACE asks for the report.
static bool is_swift_report_redundant(const struct sigaction *action, bool is_reported) {
    bool may_be_skipped = zg_config.swift_backtrace == zg_swift_backtrace_skip ||
                          (is_reported && zg_config.swift_backtrace == zg_swift_backtrace_auto);
    return may_be_skipped && !swift_was_asked && !(zg_load(&zg_stats->degradations) >> zg_degradation_no_report & 1) &&
           is_swift_crash_handler(action);
}

bool zg_signals_is_default(int signal) {
    int index = index_of(signal);
    if (index < 0) return false;
    struct sigaction action = wanted_action(index);
    return action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN;
}

// Only Go code has no unwind information: the handler must lack it, and the code at `pc` must have it.
bool zg_signals_ends_go(int signal, uint64_t pc) {
    int index = index_of(signal);
    if (!is_program_of_go || index < 0) return false;
    struct sigaction action = wanted_action(index);
    return !zg_signals_is_default(signal) && !zg_unwind_has_rules((uint64_t)action.sa_sigaction) &&
           zg_unwind_has_rules(pc);
}

bool zg_signals_has_handler(int signal) { return index_of(signal) >= 0 && !zg_signals_is_deadly(signal); }

bool zg_signals_is_deadly(int signal) {
    int index = index_of(signal);
    if (index < 0) return false;
    struct sigaction action = wanted_action(index);
    return zg_signals_is_default(signal) || is_swift_crash_handler(&action);
}

struct call {
    struct sigaction action;
    int signal;
};

static void call_handler(void *call_pointer, void *info, void *context) {
    struct call *call = call_pointer;
    if (call->action.sa_flags & SA_SIGINFO) call->action.sa_sigaction(call->signal, info, context);
    else call->action.sa_handler(call->signal);
}

// State of the call of a handler that runs on the interrupted stack, while the runtime's frames are on the alternate
// stack. A second signal would begin at the top of the alternate stack and overwrite these frames. So the kernel's
// alternate stack is only the part below them, until the runtime's handler returns, which restores the whole stack.
struct interrupted_call {
    struct call *call;
    struct zg_thread *thread;
    stack_t below; // ss_size 0: the alternate stack stays as it is
};

static void call_on_interrupted(void *call_pointer, void *info, void *context) {
    struct interrupted_call *call = call_pointer;
    const stack_t *whole = &((const ucontext_t *)context)->uc_stack;
    if (!call->below.ss_size || real_stack(&call->below, NULL) != 0) {
        call_handler(call->call, info, context);
        return;
    }
    void *start = call->thread->lowered.start;
    uint64_t bytes = call->thread->lowered.bytes;
    if (!start) {
        call->thread->lowered.bytes = whole->ss_size;
        ZG_SIGNAL_FENCE();
        call->thread->lowered.start = whole->ss_sp;
    }
    call_handler(call->call, info, context);
    call->thread->lowered.start = start;
    call->thread->lowered.bytes = bytes;
}

// Returns the part of the alternate stack below `here`; the runtime needs the part above `here`. ss_size is 0 if too
// little would be left for the runtime's handler.
static stack_t part_below(const ucontext_t *interrupted, const void *here) {
    enum { BELOW_FRAME = 4 << 10, LEAST = 24 << 10 };
    const stack_t *whole = &interrupted->uc_stack;
    uint64_t distance = (uint64_t)here - (uint64_t)whole->ss_sp;
    stack_t below = {.ss_sp = whole->ss_sp};
    if (!whole->ss_flags && distance < whole->ss_size && distance >= LEAST + BELOW_FRAME)
        below.ss_size = (distance - BELOW_FRAME) & ~UINT64_C(63);
    return below;
}

static void give_back_lowered(void *thread_pointer, void *unused, void *unused_as_well) {
    (void)unused, (void)unused_as_well;
    struct zg_thread *thread = thread_pointer;
    stack_t whole = {.ss_sp = thread->lowered.start, .ss_size = thread->lowered.bytes};
    thread->lowered.start = NULL;
    real_stack(&whole, NULL);
}

void zg_signals_restore_lowered_stack(void) {
    struct zg_thread *thread = zg_thread_current_or_null();
    if (!thread || !thread->lowered.start || !thread->reserve_stack) return;
    uint64_t mask;
    if ((uint64_t)&mask - (uint64_t)thread->lowered.start >= thread->lowered.bytes) {
        give_back_lowered(thread, NULL, NULL);
        return;
    }
    if (!zg_os_mask_signals(SIG_SETMASK, ~faults, &mask)) return;
    zg_arch_call_on_stack(give_back_lowered, thread, NULL, NULL,
                          (char *)thread->reserve_stack + thread->reserve_stack_bytes + RESERVE_TAIL_BYTES);
    zg_os_mask_signals(SIG_SETMASK, mask, NULL);
}

struct moved {
    struct call *call;
    const stack_t *stack;
};

static void call_moved(void *moved_pointer, void *info, void *context) {
    struct moved *moved = moved_pointer;
    real_stack(moved->stack, NULL);
    call_handler(moved->call, info, context);
}

// Whether the handler must run on the interrupted stack: it asks for no alternate stack, or the program has set none.
static bool wants_interrupted_stack(const struct sigaction *action) {
    stack_t stack;
    if (!(action->sa_flags & SA_ONSTACK)) return true;
    if (__atomic_load_n(&stacks, __ATOMIC_RELAXED) == stacks_are_shared) return false;
    return real_stack(NULL, &stack) == 0 && is_ours(&stack);
}

// Whether the fault is a stack overflow: an access near the stack pointer, where functions begin, or below it, where
// stack probes reach.
static bool has_run_over(const siginfo_t *info, const void *context) {
    enum { REACH = 64 << 10 };
    uint64_t address = (uint64_t)info->si_addr, sp = zg_arch_stack_pointer(context);
    return info->si_signo == SIGSEGV && info->si_code > 0 && address - (sp - REACH) < REACH + ZG_PAGE_BYTES;
}

// Calls a handler on the alternate stack. If that stack is small (Rust's has 8 KiB), moves a handler of stack overflows
// to another stack. Such a handler ends the program by abort, SIGABRT has a handler with collect=crashes, and a small
// stack has no room for a second signal frame. The handler then runs on the thread's reserve stack, which is the
// kernel's alternate stack meanwhile. If the program leaves the handler by a jump, zg_signals_leave_handler or
// zg_signals_restore_moved_stack restores the program's stack.
static void call_with_room(struct call *call, siginfo_t *info, void *context) {
    enum { SMALL = 16 << 10 };
    struct zg_thread *thread = zg_thread_current_or_null();
    stack_t theirs, ours = {0};
    bool may_move = (zg_config.collect & zg_collect_crashes) && has_run_over(info, context) && thread &&
                    thread->tid == zg_os_tid() && thread->reserve_stack && real_stack(NULL, &theirs) == 0 &&
                    theirs.ss_flags == SS_ONSTACK && theirs.ss_size < SMALL;
    if (may_move) {
        ours.ss_sp = thread->reserve_stack;
        ours.ss_size = thread->reserve_stack_bytes;
    }
    if (!may_move || theirs.ss_sp == ours.ss_sp) {
        call_handler(call, info, context);
        return;
    }
    struct moved moved = {call, &ours};
    thread->moved.start = theirs.ss_sp;
    thread->moved.bytes = theirs.ss_size;
    zg_arch_call_on_stack(call_moved, &moved, info, context, (char *)ours.ss_sp + ours.ss_size);
    give_back_stack(thread);
}

// Whether the interrupted stack cannot be used: the runtime's handler already runs on it, or it is known to be used up.
// `here`: the current stack pointer.
static bool has_no_room(const ucontext_t *interrupted, uint64_t sp, uint64_t here) {
    // Read the alternate stack from the context, because with SS_AUTODISARM the thread has no alternate stack now.
    uint64_t start = (uint64_t)interrupted->uc_stack.ss_sp, bytes = interrupted->uc_stack.ss_size;
    if (here - start >= bytes || sp - start < bytes) return true;
    struct zg_stack_bounds bounds = zg_thread_stack_bounds();
    return bounds.low && sp >= bounds.low && sp < bounds.high && sp - bounds.low < ZG_ARCH_RED_ZONE;
}

// Makes the process die when the handler returns, of the same signal with the same siginfo. The instruction alone may
// not fault again if other threads change the mapping. Keeps other threads from beginning a report, which would be cut
// off.
static void default_action(int signal, const siginfo_t *info, ucontext_t *interrupted) {
    struct sigaction none = {.sa_handler = SIG_DFL};
    zg_report_close_for_good();
    bool done = real_action(signal, &none, NULL) == 0;
    if (done) sigdelset(&interrupted->uc_sigmask, signal);
    if (info->si_code <= 0 && done && zg_config.collect & zg_collect_crashes) {
        zg_os_raise_again(signal, info); // keeps the core file's siginfo
    } else if (info->si_code <= 0) {
        zg_os_kill_self(signal);
        if (!done) zg_os_exit(128 + signal);
    } else if (done) {
        zg_os_raise_again(signal, info);
    } else {
        // A seccomp filter has refused the call. A fault whose signal is blocked ends the process as well.
        sigaddset(&interrupted->uc_sigmask, signal);
    }
}

static bool is_explained; // a finding explains why the program ends

void zg_signals_note_explained(void) { __atomic_store_n(&is_explained, true, __ATOMIC_RELAXED); }

bool zg_signals_is_explained(void) { return __atomic_load_n(&is_explained, __ATOMIC_RELAXED); }

bool zg_signals_is_crash(int signal, const siginfo_t *info, const void *context) {
    return !zg_signals_is_explained() && zg_signals_ends(signal, info, context);
}

bool zg_signals_ends(int signal, const siginfo_t *info, const void *context) {
    int index = index_of(signal);
    if (index < 0 || !zg_os_is_own_process()) return false;
    if (info->si_code > 0 && zg_signals_is_blocked(signal, context)) return true;
    return zg_signals_is_deadly(signal) && !(info->si_code <= 0 && wanted_action(index).sa_handler == SIG_IGN);
}

bool zg_signals_goes_on(int signal, const siginfo_t *info) {
    int index = index_of(signal);
    if (index < 0 || info->si_code > 0 || info->si_pid != zg_os_pid() || !zg_os_is_own_process()) return false;
    return wanted_action(index).sa_handler != SIG_DFL && !__atomic_load_n(&is_explained, __ATOMIC_RELAXED);
}

void zg_signals_abort(void) {
    struct sigaction action;
    __atomic_store_n(&is_explained, true, __ATOMIC_RELAXED);
    int index = index_of(SIGABRT);
    bool is_ours = __atomic_load_n(&installed, __ATOMIC_ACQUIRE) >> index & 1, is_known = true;
    if (is_ours) action = wanted_action(index);
    else is_known = real_action(SIGABRT, NULL, &action) == 0;
    if (is_known && is_swift_report_redundant(&action, false)) {
        action = (struct sigaction){.sa_handler = SIG_DFL};
        zg_signals_action(SIGABRT, &action, NULL);
    } else if (is_known && is_swift_crash_handler(&action)) {
        zg_report_wait_until_shown();
    }
    if (is_known && (action.sa_handler == SIG_DFL || (is_ours && action.sa_handler == SIG_IGN)))
        zg_report_close_for_good();
    abort();
}

bool zg_signals_is_pending(uint64_t signals) {
    uint64_t pending;
    return zg_os_pending_signals(&pending) && (pending & signals);
}

void zg_signals_unblock_faults(void) { zg_os_mask_signals(SIG_UNBLOCK, faults, NULL); }
void zg_signals_block_faults(void) { zg_os_mask_signals(SIG_BLOCK, faults, NULL); }

void zg_signals_call_program_handler(int signal, siginfo_t *info, void *context) {
    int index = index_of(signal);
    if (index >= 0 && info->si_code > 0 && zg_signals_is_blocked(signal, context)) {
        default_action(signal, info, context);
        return;
    }
    struct call call = {index < 0 ? (struct sigaction){.sa_handler = SIG_DFL} : wanted_action(index), signal};
    if (call.action.sa_handler == SIG_IGN && info->si_code <= 0) return;
    if (call.action.sa_handler == SIG_DFL || call.action.sa_handler == SIG_IGN) {
        default_action(signal, info, context);
        return;
    }
    if (call.action.sa_flags & SA_RESETHAND) {
        struct sigaction none = call.action; // keeps flags and mask, as the kernel does
        none.sa_handler = SIG_DFL;
        zg_signals_action(signal, &none, NULL);
    }
    uint64_t sp = zg_arch_stack_pointer(context);
    bool on_interrupted_stack = wants_interrupted_stack(&call.action) && !has_no_room(context, sp, (uint64_t)&call);
    // Write to the stack, as the kernel would have done: if that faults, the process ends now, because fault signals
    // are blocked. In the program's handler, which may block no signals, the fault would repeat forever.
    if (on_interrupted_stack) *(volatile uint64_t *)((sp - ZG_ARCH_RED_ZONE - sizeof(uint64_t)) & ~UINT64_C(7)) = 0;
    uint64_t mask = mask_of(context), extra;
    __builtin_memcpy(&extra, &call.action.sa_mask, sizeof extra);
    mask |= extra;
    if (!(call.action.sa_flags & SA_NODEFER)) mask |= UINT64_C(1) << (signal - 1);
    zg_os_mask_signals(SIG_SETMASK, mask, NULL);
    if (on_interrupted_stack) {
        struct interrupted_call there = {&call, zg_thread_current_or_null(), {0}};
        if (there.thread && there.thread->handled) there.below = part_below(context, &there);
        zg_arch_call_on_stack(call_on_interrupted, &there, info, context, (void *)(sp - ZG_ARCH_RED_ZONE));
    } else {
        call_with_room(&call, info, context);
    }
}

void zg_signals_end_reported(int signal, siginfo_t *info, void *context, bool is_reported) {
    int index = index_of(signal);
    struct sigaction action = index < 0 ? (struct sigaction){.sa_handler = SIG_DFL} : wanted_action(index);
    bool is_swifts = is_swift_crash_handler(&action);
    if (!is_swifts || !is_swift_report_redundant(&action, is_reported)) {
        if (is_swifts) zg_report_wait_until_shown(); // shows the runtime's report before Swift's
        zg_signals_call_program_handler(signal, info, context);
    }
    // Swift's handler has removed itself, so the instruction would fault again and the same finding would be made
    // again.
    if (is_swifts) default_action(signal, info, context);
}
