// Scenarios of signals that interrupt the heap, of stacks other than the thread's own, and of signal masks.

#include "scenario.h"

#include <semaphore.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <ucontext.h>

// --- jumps out of malloc ---------------------------------------------------------------------------------------------

static sigjmp_buf back;
static volatile uint64_t jumps;

// A jump may lose the interrupted operation, as without the library, but must not damage the heap.
static void check_heap(void) {
    for (int i = 0; i < 3; i++) MUST(work_with_blocks(100) == 0, "the heap works after a jump out of it");
}

#if defined(__x86_64__)
// With the trap flag set, each instruction raises SIGTRAP. The kernel clears the flag while the handler runs.
static inline void steps_on(void) { __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc"); }
static inline void steps_off(void) { __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc"); }

static volatile uint64_t steps, jump_at;
static volatile int armed, use_plain_jump;
static void on_step(int number) {
    (void)number;
    if (!armed || ++steps != jump_at) return;
    armed = 0;
    jumps++;
    if (use_plain_jump) longjmp(back, 1);
    siglongjmp(back, 1);
}

enum { LARGE = 34000, PENDING = 63 };
static void *volatile stepped, *volatile others[PENDING + 1];
static volatile int operation;

static NOINLINE void operate(void) {
    switch (operation) {
    case 0: stepped = malloc(100); break;
    case 1: free(stepped); break;
    case 2: stepped = realloc(stepped, 900); break;
    case 3: stepped = malloc(LARGE); break;
    case 4: free(stepped); break;
    case 5: // drains the magazines, and hands blocks over to the quarantine
        for (int i = 0; i < PENDING; i++) free(others[i]);
        break;
    case 6:
        for (int i = 0; i < PENDING; i++) others[i] = malloc(330);
        break;
    }
}

static void prepare(void) {
    static const size_t sizes[] = {0, 100, 100, 0, LARGE};
    if (operation < 5) stepped = sizes[operation] ? malloc(sizes[operation]) : NULL;
    if (operation == 5)
        for (int i = 0; i < PENDING; i++) others[i] = malloc(330);
}

// Jumps out of each operation after a number of instructions, which grows in small, later in larger steps.
static void jumps_at_steps(void) {
    struct sigaction action = {.sa_handler = on_step};
    sigaction(SIGTRAP, &action, NULL);
    for (operation = 0; operation <= 6; operation = operation + 1) {
        for (volatile uint64_t at = 1; at < 4000; at = at + (at < 60 ? 3 : 11 + at / 6)) {
            prepare();
            steps = 0;
            jump_at = at;
            use_plain_jump = at % 5 == 0;
            volatile int finished = 0;
            if (!sigsetjmp(back, 1)) {
                armed = 1;
                steps_on();
                operate();
                steps_off();
                armed = 0;
                finished = 1;
            }
            sigset_t trap;
            sigemptyset(&trap);
            sigaddset(&trap, SIGTRAP);
            sigprocmask(SIG_UNBLOCK, &trap, NULL);
            if (finished) break;
            if (work_with_blocks(12)) say("FAILED: operation %d left at instruction %d", operation, (int)at);
        }
    }
    MUST(jumps > 100, "operations were left");
    check_heap();
    // The jump must have left no lock held.
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, (void *(*)(void *))(void *)work_with_blocks, (void *)500) == 0,
         "a thread starts");
    pthread_join(thread, NULL);
}
#else
static void jumps_at_steps(void) {}
#endif

static void on_alarm(int number) {
    (void)number;
    jumps++;
    siglongjmp(back, 1);
}
// Jumps out of the heap at a thousand random moments. Afterwards a million operations must work.
static void jumps_at_random(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    volatile uint64_t operations = 0;
    sigaction(SIGALRM, &action, NULL);
    while (jumps < 1000) {
        if (sigsetjmp(back, 1)) continue;
        setitimer(ITIMER_REAL, &every, NULL);
        for (;;) {
            void *volatile blocks[8];
            for (int i = 0; i < 8; i++) blocks[i] = malloc(40 + 150 * (size_t)i);
            for (int i = 0; i < 8; i++) blocks[i] = realloc(blocks[i], 900);
            for (int i = 0; i < 8; i++) free(blocks[i]);
            operations++;
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    for (int i = 0; i < 1000000; i++) free(malloc((size_t)i % 700));
    check_heap();
}

// --- handlers --------------------------------------------------------------------------------------------------------

static volatile uint64_t handled;
static void *volatile handlers_own;
static void allocate_in_handler(int number) {
    (void)number;
    free(handlers_own);
    handlers_own = malloc(handled++ % 400);
    free(realloc(malloc(10), 300));
}
// A fast timer interrupts the heap; its signal handler allocates and frees.
static void timers(void) {
    struct sigaction action = {.sa_handler = allocate_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    timer_t timer;
    struct itimerspec every = {{0, 100000}, {0, 100000}}, never = {{0, 0}, {0, 0}};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &every, NULL);
    for (int i = 0; i < 2000 && handled < 3000; i++) MUST(work_with_blocks(100) == 0, "works under a fast timer");
    timer_settime(timer, 0, &never, NULL);
    timer_delete(timer);
    MUST(handled > 100, "handlers ran");
}

static void plant_in_handler(int number) {
    (void)number;
    plant();
}
// The handler blocks all signals except those of faults: with fault signals blocked, the kernel would kill the process
// at the fault.
static void bug_in_handler(void) {
    struct sigaction action = {.sa_handler = plant_in_handler};
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGSEGV);
    sigdelset(&action.sa_mask, SIGBUS);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

// --- stacks ----------------------------------------------------------------------------------------------------------

static ucontext_t scheduler, coroutines[8];
static int turns[8];
static void coroutine(int number) {
    void *held = malloc(200);
    for (int i = 0; i < 20; i++) {
        MUST(work_with_blocks(10) == 0, "a coroutine works");
        void *next = malloc(100 + (size_t)i);
        free(held);
        held = next;
        turns[number]++;
        swapcontext(&coroutines[number], &scheduler);
    }
    free(held);
    if (number == 7) plant();
}
static void coroutines_on_heap(void) {
    enum { STACK = 96 << 10 };
    void *stacks[8];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 8; i++) {
            stacks[i] = malloc(STACK);
            getcontext(&coroutines[i]);
            coroutines[i].uc_stack.ss_sp = stacks[i];
            coroutines[i].uc_stack.ss_size = STACK;
            coroutines[i].uc_link = &scheduler;
            makecontext(&coroutines[i], (void (*)(void))coroutine, 1, i);
        }
        for (int i = 0; i < 20; i++)
            for (int j = 0; j < 8; j++) swapcontext(&scheduler, &coroutines[j]);
        for (int j = 0; j < 7; j++) swapcontext(&scheduler, &coroutines[j]);
        if (round) swapcontext(&scheduler, &coroutines[7]);
        for (int i = 0; i < 8; i++) free(stacks[i]);
    }
}

static volatile int on_own_stack;
static char *own_stack;
static size_t own_bytes;
static void note_stack(int number) {
    char here;
    on_own_stack = &here >= own_stack && &here < own_stack + own_bytes;
    if (number == SIGSEGV) siglongjmp(back, 1);
}
static size_t smallest_stack(void) {
    size_t bytes = (size_t)getauxval(51 /* AT_MINSIGSTKSZ */);
    return (bytes > 2048 ? bytes : 2048) + 1024;
}
static void *with_own_stack(void *unused) {
    stack_t before, none = {.ss_flags = SS_DISABLE};
    sigaltstack(NULL, &before);
    say("a thread begins with flags %d", before.ss_flags);
    own_bytes = smallest_stack();
    own_stack = malloc(own_bytes);
    stack_t own = {.ss_sp = own_stack, .ss_size = own_bytes};
    MUST(sigaltstack(&own, NULL) == 0, "an alternate stack of the smallest size");
    for (int i = 0; i < 3; i++) {
        on_own_stack = 0;
        raise(SIGUSR2);
        MUST(on_own_stack, "a handler runs on it");
        on_own_stack = 0;
        if (!sigsetjmp(back, 1)) *(volatile char *)16 = 1;
        MUST(on_own_stack, "a fault's handler runs on it");
    }
    sigaltstack(NULL, &before);
    MUST(before.ss_sp == own_stack && before.ss_size == own_bytes && !before.ss_flags, "it is known");
    own.ss_flags = (int)(1u << 31); // SS_AUTODISARM
    if (sigaltstack(&own, NULL) == 0) {
        on_own_stack = 0;
        raise(SIGUSR2);
        MUST(on_own_stack, "a handler runs on one that disarms itself");
    }
    MUST(sigaltstack(&none, &before) == 0, "it is given up");
    sigaltstack(NULL, &before);
    say("and then has flags %d", before.ss_flags);
    on_own_stack = 0;
    if (!sigsetjmp(back, 1)) *(volatile char *)16 = 1;
    MUST(!on_own_stack, "then a fault's handler runs elsewhere");
    // From here on the alternate stack is an ordinary freed block.
    free(own_stack);
    own_stack = NULL;
    on_own_stack = 0;
    raise(SIGUSR2);
    MUST(work_with_blocks(100) == 0, "works afterwards");
    return unused;
}
static void alternate_stacks(void) {
    struct sigaction action = {.sa_handler = note_stack, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, with_own_stack, NULL);
        pthread_join(thread, NULL);
    }
    with_own_stack(NULL);
    signal(SIGSEGV, SIG_DFL);
    // The bug that is planted after the scenario is detected even with the smallest alternate stack.
    own_stack = malloc(own_bytes = smallest_stack());
    stack_t own = {.ss_sp = own_stack, .ss_size = own_bytes};
    sigaltstack(&own, NULL);
}

// --- masks -----------------------------------------------------------------------------------------------------------

static void *waits(void *set) {
    int number = 0;
    sigwait(set, &number);
    MUST(number == SIGUSR1, "sigwait gives the signal");
    int file = signalfd(-1, set, SFD_CLOEXEC);
    struct signalfd_siginfo information;
    raise(SIGUSR1);
    MUST(read(file, &information, sizeof information) == sizeof information && information.ssi_signo == SIGUSR1,
         "signalfd gives the signal");
    close(file);
    return NULL;
}
static void say_mask(const char *when) {
    sigset_t now;
    sigemptyset(&now);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    int count = 0;
    for (int i = 1; i <= 64; i++) count += sigismember(&now, i) == 1;
    say("%s %d signals are blocked, of faults %d%d", when, count, sigismember(&now, SIGSEGV),
        sigismember(&now, SIGBUS));
}
static void *all_blocked(void *unused) {
    say_mask("in a thread");
    MUST(work_with_blocks(100) == 0, "works with all signals blocked");
    plant();
    return unused;
}
// Every thread blocks every signal. A fault then makes the kernel kill the process.
static void blocked(void) {
    sigset_t set, all;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    say_mask("one:");
    pthread_t thread;
    pthread_create(&thread, NULL, waits, &set);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    say_mask("all:");
    pid_t child = fork();
    if (child == 0) {
        // Fault signals that were sent stay pending, and the program can fetch them.
        sigset_t waiting, fault;
        for (int i = 0; i < 2; i++) {
            if (i) kill(getpid(), SIGSEGV);
            else raise(SIGSEGV);
            sigpending(&waiting);
            MUST(sigismember(&waiting, SIGSEGV), "a fault signal that was sent waits");
            sigemptyset(&fault);
            sigaddset(&fault, SIGSEGV);
            MUST(sigtimedwait(&fault, NULL, &(struct timespec){0, 0}) == SIGSEGV, "and can be taken");
        }
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGTERM);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        say_mask("all but one:");
        if (sigpending(&waiting) != 0 || sigismember(&waiting, SIGSEGV)) _exit(3);
        _exit(work_with_blocks(10));
    }
    MUST(status_of(child) == 0, "a child of a process that blocks all");
    pthread_create(&thread, NULL, all_blocked, NULL);
    pthread_join(thread, NULL);
}

static sem_t timer_ran;
static void plant_in_timer(union sigval unused) {
    (void)unused;
    plant();
    sem_post(&timer_ran);
}
// libc calls the timer's function in a new thread (SIGEV_THREAD) that has all signals blocked.
static void timer_thread(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = plant_in_timer};
    struct itimerspec once = {.it_value = {0, 1000000}};
    timer_t timer;
    sem_init(&timer_ran, 0, 0);
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "a timer with a thread");
    timer_settime(timer, 0, &once, NULL);
    while (sem_wait(&timer_ran) != 0) MUST(errno == EINTR, "the thread runs");
}

// A fault while its signal is blocked kills the process, even if a handler is installed.
static void never(int number) {
    (void)number;
    _exit(4);
}
static void blocked_fault(void) {
    pid_t child = fork();
    if (child == 0) {
        sigset_t all;
        signal(SIGSEGV, never);
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        *(volatile char *)24 = 1;
        _exit(5);
    }
    int status = status_of(child);
    MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "a fault while its signal is blocked");
}

static void no_children(void) {
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) _exit(work_with_blocks(20));
        MUST(waitpid(child, NULL, 0) == -1 && errno == ECHILD, "nobody waits for children");
    }
    MUST(system("exit 3") == -1, "nor for a shell");
    signal(SIGCHLD, SIG_DFL);
}

const struct scenario scenarios[] = {
    {"jumps-at-steps", jumps_at_steps, "modes=guard,fence,continue"},
    {"jumps-at-random", jumps_at_random, "modes=guard,fence,continue"},
    {"timers", timers, "modes=guard,fence,continue"},
    {"bug-in-handler", bug_in_handler, "inside=1"},
    {"coroutines", coroutines_on_heap, "inside=1"},
    {"alternate-stacks", alternate_stacks, ""},
    {"blocked", blocked, "inside=1"},
    {"timer-thread", timer_thread, "inside=1"},
    {"blocked-fault", blocked_fault, "own=null-access"},
    {"no-children", no_children, ""},
    {NULL, NULL, NULL},
};
