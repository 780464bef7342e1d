// Programs with their own fault handlers, one per function. Tests/Detection/handlers.py reads the line before each:
// ends: STATUS or SIGNAL, kind of the finding, or `nothing`[, by=how the handler ends the program]
//       [, clause=of the closing line][, seen=run][, top=FUNCTION]
// A finding of kind `crash` is expected only with crash collection. The innermost program function of the stack is the
// case's, or `top`. seen=run: the runtime cannot see how the process ends; zguard reports the fault (zg_handled.h).
// usage: handlers CASE [onstack] [nodefer] [resethand]
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define CASE __attribute__((noinline, noclone)) static void
static void *volatile nothing;
static volatile int zero, in_handler, left;
static volatile int64_t far = (int64_t)2 << 30;
static int flags;
static sigjmp_buf back;
static ucontext_t context_back;
static char *block, *page;
static struct sigaction before;

static void handle(int number, void (*handler)(int, siginfo_t *, void *), int more) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags | more};
    sigaction(number, &action, &before);
}
static void handle_faults(void (*handler)(int, siginfo_t *, void *)) { handle(SIGSEGV, handler, 0); }

// --- handlers ---

static void exit_139(int number, siginfo_t *info, void *context) { _exit(139); }
static void exit_capital(int number, siginfo_t *info, void *context) { _Exit(17); }
static void exit_with_atexit(int number, siginfo_t *info, void *context) { exit(3); }
static void exit_by_err(int number, siginfo_t *info, void *context) { errx(4, "something is wrong"); }
static void exit_quickly(int number, siginfo_t *info, void *context) { quick_exit(5); }
static void exit_by_number(int number, siginfo_t *info, void *context) { syscall(SYS_exit_group, 7); }
static void exit_with_0(int number, siginfo_t *info, void *context) { _exit(0); }
static void exit_by_instruction(int number, siginfo_t *info, void *context) {
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_exit_group), "D"(6) : "rcx", "r11", "memory");
#else
    register long x0 __asm__("x0") = 6;
    register long x8 __asm__("x8") = SYS_exit_group;
    __asm__ volatile("svc 0" : : "r"(x0), "r"(x8) : "memory");
#endif
}
static void call_abort(int number, siginfo_t *info, void *context) { abort(); }
static void raise_again(int number, siginfo_t *info, void *context) {
    signal(number, SIG_DFL);
    raise(number);
}
static void kill_again(int number, siginfo_t *info, void *context) {
    signal(number, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    kill(getpid(), number);
}
static void take_away_and_return(int number, siginfo_t *info, void *context) { signal(number, SIG_DFL); }
static void give_back(int number, siginfo_t *info, void *context) { sigaction(number, &before, NULL); }
static void kill_itself(int number, siginfo_t *info, void *context) { kill(getpid(), SIGKILL); }
__attribute__((noinline)) static void fault_again(int number, siginfo_t *info, void *context) {
    if (in_handler++ > 2) _exit(77);
    *(volatile int *)((char *)nothing + 40) = 1;
}
static void jump(int number, siginfo_t *info, void *context) { siglongjmp(back, 1); }
static void set_context(int number, siginfo_t *info, void *context) { setcontext(&context_back); }
static void open_page(int number, siginfo_t *info, void *context) { mprotect(page, 4096, PROT_READ | PROT_WRITE); }
static void fork_aborter_and_jump(int number, siginfo_t *info, void *context) {
    if (!fork()) abort();
    wait(NULL);
    siglongjmp(back, 1);
}
static void execute_reporter(int number, siginfo_t *info, void *context) {
    int status;
    pid_t child = fork();
    if (!child) {
        execl("/bin/false", "false", NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    signal(number, SIG_DFL);
    raise(number);
}
static void vfork_reporter(int number, siginfo_t *info, void *context) {
    pid_t child = vfork();
    if (!child) {
        execl("/no/such/reporter", "reporter", NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    siglongjmp(back, 1);
}
static void wait_for_ever(int number, siginfo_t *info, void *context) {
    in_handler = 1;
    for (;;) pause();
}
static void free_and_exit(int number, siginfo_t *info, void *context) {
    free(block);
    for (int i = 0; i < 2000; i++) free(malloc((size_t)i));
    _exit(139);
}
static void go_on_in_steps(int number, siginfo_t *info, void *context) {
    // A second fault in the handler, from which the handler recovers by siglongjmp before it ends the program.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    if (in_handler++) siglongjmp(back, 1);
    if (!sigsetjmp(back, 1)) *(volatile int *)((char *)nothing + 80) = 1;
    _exit(9);
}
static void after_long(int number, siginfo_t *info, void *context) {
    usleep(300000);
    _exit(11);
}

// --- faults ---

__attribute__((noinline, noclone)) static void fall(void) {
    *(volatile int *)((char *)nothing + 16) = 1;
    zero++;
}
static void *fall_in_thread(void *unused) {
    fall();
    return NULL;
}

// ends: 139, null-access, by=status 139, top=fall
CASE exits_139(void) { handle_faults(exit_139), fall(); }
// ends: 17, null-access, by=status 17, top=fall
CASE exits_17(void) { handle_faults(exit_capital), fall(); }
// ends: 3, null-access, by=status 3, top=fall
CASE exits_with_atexit(void) { handle_faults(exit_with_atexit), fall(); }
// ends: 4, null-access, by=status 4, top=fall
CASE exits_by_err(void) { handle_faults(exit_by_err), fall(); }
// ends: 5, null-access, by=status 5, top=fall
CASE exits_quickly(void) { handle_faults(exit_quickly), fall(); }
// ends: 7, null-access, by=status 7, top=fall
CASE exits_by_number(void) { handle_faults(exit_by_number), fall(); }
// ends: 6, null-access, by=status 6, seen=run, top=fall
CASE exits_by_instruction(void) { handle_faults(exit_by_instruction), fall(); }
// ends: 11, null-access, by=status 11, top=fall
CASE exits_late(void) { handle_faults(after_long), fall(); }
// ends: SIGABRT, null-access, by=SIGABRT, top=fall
CASE aborts(void) { handle_faults(call_abort), fall(); }
// ends: SIGSEGV, null-access, by=SIGSEGV, top=fall
CASE raises_again(void) { handle_faults(raise_again), fall(); }
// ends: SIGSEGV, null-access, by=SIGSEGV, top=fall
CASE kills_again(void) { handle_faults(kill_again), fall(); }
// The instruction faults again, now without a handler.
// ends: SIGSEGV, null-access, clause=ended by SIGSEGV, top=fall
CASE takes_itself_away(void) { handle_faults(take_away_and_return), fall(); }
// ends: SIGKILL, null-access, by=SIGKILL, seen=run, clause=killed by SIGKILL after, top=fall
CASE kills_itself(void) { handle_faults(kill_itself), fall(); }
// ends: SIGSEGV, null-access, by=SIGSEGV, seen=run, top=fall
CASE faults_again(void) { handle_faults(fault_again), fall(); }
// ends: SIGSEGV, null-access, by=SIGSEGV, top=fall
CASE chained(void) {
    handle_faults(raise_again);
    handle_faults(give_back);
    handle_faults(exit_139);
    sigaction(SIGSEGV, &before, NULL); // restores give_back, which installs `before`
    before = (struct sigaction){.sa_sigaction = raise_again, .sa_flags = SA_SIGINFO};
    fall();
}
// ends: SIGSEGV, null-access, by=SIGSEGV, top=fall
CASE has_reporter(void) { handle_faults(execute_reporter), fall(); }
// ends: 9, null-access, by=status 9, top=fall
CASE recovers_in_handler(void) { handle_faults(go_on_in_steps), fall(); }
// ends: 9, null-access, by=status 9, clause=, top=fall
CASE another_thread_exits(void) {
    pthread_t thread;
    handle_faults(wait_for_ever);
    pthread_create(&thread, NULL, fall_in_thread, NULL);
    while (!in_handler) usleep(1000);
    exit(9);
}
// ends: SIGTERM, null-access, by=SIGTERM, seen=run, clause=killed by SIGTERM after, top=fall
CASE somebody_ends_it(void) {
    pid_t self = getpid();
    if (!fork()) {
        usleep(300000);
        kill(self, SIGTERM);
        _exit(0);
    }
    handle_faults(wait_for_ever), fall();
}
// A write 2 GiB past the start of a block that the handler frees.
// ends: 139, heap-overflow, by=status 139
CASE far_past_block(void) {
    block = malloc(100);
    handle_faults(free_and_exit);
    char *start = block;
    int64_t index = far;
    *(volatile char *)(start + index) = 1;
    block = start + 1, far = index; // keeps both in registers during the write
}
// ends: 139, wild-access, by=status 139
CASE wild_write(void) {
    handle_faults(exit_139);
    *(volatile int *)(uintptr_t)0x123456789000 = 1;
    zero++;
}
// ends: SIGFPE, crash, by=SIGFPE
CASE division(void) {
    handle(SIGFPE, raise_again, 0);
#ifdef __x86_64__
    zero = 100 / zero;
#else
    raise(SIGFPE);
#endif
    zero++;
}
// ends: 139, crash, by=status 139
CASE illegal(void) {
    handle(SIGILL, exit_139, 0);
    __builtin_trap();
}
// ends: 139, crash, by=status 139
CASE aborts_and_exits(void) {
    handle(SIGABRT, exit_139, 0);
    abort();
}
// ends: SIGABRT, crash, by=SIGABRT
CASE aborts_and_raises(void) {
    handle(SIGABRT, raise_again, 0);
    abort();
}
// A raised SIGSEGV is not a fault. Its handler faults while SIGSEGV is blocked, so the kernel kills the program.
// ends: SIGSEGV, nothing, clause=ended by SIGSEGV\, in one of its own signal handlers
CASE sent_and_faults(void) {
    handle_faults(fault_again);
    raise(SIGSEGV);
}
// ends: 139, nothing, clause=ended with status 139\, in one of its own signal handlers
CASE sent_and_exits(void) {
    handle_faults(exit_139);
    raise(SIGSEGV);
}

// ends: 0, nothing
CASE exits_with_0(void) { handle_faults(exit_with_0), fall(); }
// ends: 8, nothing
CASE jumps(void) {
    handle_faults(jump);
    if (!sigsetjmp(back, 1)) fall();
    _exit(8);
}
// ends: 8, nothing
CASE sets_context(void) {
    handle_faults(set_context);
    getcontext(&context_back);
    if (!left++) fall();
    free(malloc(10));
    _exit(8);
}
// ends: 8, nothing
CASE opens_page(void) {
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    handle_faults(open_page);
    page[7] = 1;
    exit(8);
}
// ends: SIGKILL, nothing, clause=killed by SIGKILL after
CASE jumps_and_is_killed(void) {
    handle_faults(jump);
    if (!sigsetjmp(back, 1)) fall();
    kill(getpid(), SIGKILL);
}
// A child aborts in the handler, and the parent recovers.
// ends: 8, crash, clause=
CASE forks_aborter(void) {
    handle_faults(fork_aborter_and_jump);
    if (!sigsetjmp(back, 1)) fall();
    _exit(8);
}
// ends: 8, nothing
CASE lacks_reporter(void) {
    handle_faults(vfork_reporter);
    if (!sigsetjmp(back, 1)) fall();
    _exit(8);
}
// ends: 8, nothing
CASE probes(void) {
    handle_faults(jump);
    for (volatile int i = 0; i < 5000; i++)
        if (!sigsetjmp(back, 1)) fall();
    free(malloc(10));
    exit(8);
}
// ends: SIGABRT, crash, clause=ended by SIGABRT
CASE jumps_and_aborts(void) {
    handle_faults(jump);
    if (!sigsetjmp(back, 1)) fall();
    abort();
}

#define ENTRY(name)                                                                                                    \
    { #name, name }
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {ENTRY(exits_139),
             ENTRY(exits_17),
             ENTRY(exits_with_atexit),
             ENTRY(exits_by_err),
             ENTRY(exits_quickly),
             ENTRY(exits_by_number),
             ENTRY(exits_by_instruction),
             ENTRY(exits_late),
             ENTRY(aborts),
             ENTRY(raises_again),
             ENTRY(kills_again),
             ENTRY(takes_itself_away),
             ENTRY(kills_itself),
             ENTRY(faults_again),
             ENTRY(chained),
             ENTRY(has_reporter),
             ENTRY(recovers_in_handler),
             ENTRY(another_thread_exits),
             ENTRY(somebody_ends_it),
             ENTRY(far_past_block),
             ENTRY(wild_write),
             ENTRY(division),
             ENTRY(illegal),
             ENTRY(aborts_and_exits),
             ENTRY(aborts_and_raises),
             ENTRY(sent_and_faults),
             ENTRY(sent_and_exits),
             ENTRY(exits_with_0),
             ENTRY(jumps),
             ENTRY(sets_context),
             ENTRY(opens_page),
             ENTRY(jumps_and_is_killed),
             ENTRY(forks_aborter),
             ENTRY(lacks_reporter),
             ENTRY(probes),
             ENTRY(jumps_and_aborts)};

int main(int count, char **words) {
    stack_t stack = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    for (int i = 2; i < count; i++) {
        if (!strcmp(words[i], "onstack")) flags |= SA_ONSTACK, sigaltstack(&stack, NULL);
        if (!strcmp(words[i], "nodefer")) flags |= SA_NODEFER;
        if (!strcmp(words[i], "resethand")) flags |= SA_RESETHAND;
    }
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(words[1], cases[i].name)) {
            cases[i].run();
            return 99;
        }
    return 98;
}
