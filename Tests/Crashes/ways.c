// C programs that crash, one per function. Tests/Detection/crashing.py reads the line in front of each function:
// dies: SIGNAL, kind of the finding[, threads=N][, message=REGULAR EXPRESSION][, top=FUNCTION][, notes=JSON]
// The innermost program function of the stack must be that of the case, or `top`. SIGNAL may be an exit status.
#define _GNU_SOURCE
#include <alloca.h>
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zg_annotate.h"

#define CASE __attribute__((noinline, noclone)) static void
static volatile int zero;
static void *volatile nothing;

// dies: SIGABRT, crash
CASE abort_plain(void) { abort(); }

// dies: SIGABRT, crash, message=ways\.c:\d+: assert_false: Assertion `zero == 1' failed\.$
CASE assert_false(void) { assert(zero == 1); }

// dies: SIGABRT, crash, message=^cannot open the database: No such file or directory$
CASE say_and_abort(void) {
    fprintf(stderr, "starting\n");
    errno = ENOENT;
    perror("cannot open the database");
    abort();
}

// dies: SIGABRT, crash, message=^out of cheese$
CASE write_and_abort(void) {
    static const char text[] = "all is well\nout of cheese\n";
    if (write(2, text, sizeof text - 1) > 0) abort();
}

// dies: SIGABRT, crash, message=^fatal: 3 errors$
CASE buffered_and_abort(void) {
    setvbuf(stderr, NULL, _IOLBF, 256);
    fprintf(stderr, "fatal: %d ", 3);
    fprintf(stderr, "errors\n");
    abort();
}

__attribute__((noinline, noclone, optimize("stack-protector-all"))) static void write_behind(void) {
    char small[8];
    memset(small, 'a', (size_t)(40 + zero));
    __asm__ volatile("" : : "r"(small) : "memory");
}
// dies: SIGABRT, crash, message=^\*\*\* stack smashing detected \*\*\*: terminated$, top=write_behind
CASE smash(void) {
    write_behind();
    zero++;
}

// dies: SIGSEGV, null-access
CASE null_write(void) { *(volatile int *)nothing = 1; }

// dies: SIGSEGV, null-access
CASE null_call(void) {
    ((void (*)(void))nothing)();
    zero++;
}

// dies: SIGSEGV, wild-access
CASE wild_read(void) { zero = *(volatile int *)(uintptr_t)0x123456789000; }

// dies: SIGSEGV, wild-access
CASE constant_write(void) { *(volatile char *)(uintptr_t) "constant" = 1; }

// dies: SIGSEGV, use-after-free
CASE freed_read(void) {
    int *volatile block = malloc(64);
    free(block);
    zero = **(int *volatile *)block;
}

// dies: SIGABRT, double-free
CASE freed_twice(void) {
    void *volatile block = malloc(64);
    free(block);
    free(block);
}

// dies: SIGSEGV, stack-overflow
CASE recursion(void) {
    volatile char room[4096];
    room[0] = (char)zero;
    recursion();
    room[1] = (char)zero;
}

// dies: SIGBUS, wild-access
CASE file_cut_off(void) {
    int file = memfd_create("cut", 0);
    if (ftruncate(file, 8192)) return;
    volatile char *bytes = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (ftruncate(file, 0)) return;
    bytes[4096] = 1;
}

// dies: SIGILL, crash
CASE illegal(void) { __builtin_trap(); }

// dies: SIGTRAP, crash
CASE breakpoint(void) { __asm__ volatile("int3"); }

// dies: SIGFPE, crash
CASE division(void) { zero = (int)(uintptr_t)&zero / zero; }

// dies: SIGSEGV, crash
CASE raise_segv(void) { raise(SIGSEGV); }

// dies: SIGBUS, crash
CASE raise_bus(void) { raise(SIGBUS); }

// dies: SIGFPE, crash
CASE raise_fpe(void) { raise(SIGFPE); }

// dies: SIGSYS, crash
CASE forbidden_call(void) {
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof lines / sizeof lines[0], lines};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    getppid();
    zero++;
}

// dies: SIGXFSZ, crash
CASE file_too_long(void) {
    struct rlimit limit = {16, RLIM_INFINITY};
    char bytes[64] = {0};
    int file = memfd_create("long", 0);
    setrlimit(RLIMIT_FSIZE, &limit);
    if (write(file, bytes, sizeof bytes) < 0 || write(file, bytes, sizeof bytes) < 0) return;
}

// dies: SIGXCPU, crash
CASE too_long(void) {
    struct rlimit limit = {0, RLIM_INFINITY};
    setrlimit(RLIMIT_CPU, &limit);
    for (;;) zero = zero + 1;
}

static void handler(int signal) {
    (void)signal;
    abort();
}
// dies: SIGABRT, crash, top=handler
CASE abort_in_handler(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
}

// dies: SIGABRT, crash
CASE abort_ignored(void) {
    signal(SIGABRT, SIG_IGN);
    abort();
}

static void note(int number) { zero = number - number; }
// dies: SIGABRT, crash
CASE abort_handled(void) {
    signal(SIGABRT, note);
    abort();
}

static void reset(int number) {
    signal(number, SIG_DFL);
    raise(number);
}
// dies: SIGILL, crash
CASE raised_by_handler(void) {
    signal(SIGILL, reset);
    __builtin_trap();
}

// dies: SIGABRT, crash, notes={"order": "17", "shop": "Üetliberg"}
CASE abort_annotated(void) {
    zg_annotate("gone", "soon");
    zg_annotate("order", "16");
    zg_annotate("order", "17");
    zg_annotate("shop", "Üetliberg");
    zg_annotate("gone", NULL);
    abort();
}

static void *wait_for_ever(void *unused) {
    for (;;) pause();
    return unused;
}

static void start(int count, void *(*function)(void *)) {
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, function, NULL);
        pthread_setname_np(thread, "waiter");
    }
    usleep(20000);
}

// dies: SIGABRT, crash, threads=4, message=^too many cooks$
CASE abort_among_threads(void) {
    start(3, wait_for_ever);
    fputs("too many cooks\n", stderr);
    abort();
}

// dies: SIGABRT, double-free, threads=3, top=freed_twice
CASE freed_twice_among_threads(void) {
    start(2, wait_for_ever);
    freed_twice();
}

// dies: SIGSEGV, null-access, threads=3
CASE null_among_threads(void) {
    start(2, wait_for_ever);
    *(volatile int *)nothing = 1;
}

__attribute__((noinline, noclone)) static void *abort_in_thread_body(void *unused) {
    usleep(20000);
    abort();
    return unused;
}
// dies: SIGABRT, crash, threads=3, top=abort_in_thread_body
CASE abort_in_thread(void) {
    start(1, wait_for_ever);
    start(1, abort_in_thread_body);
    for (;;) pause();
}

static void *spin(void *unused) {
    for (;;) zero = zero + 0;
    return unused;
}
// dies: SIGILL, crash, threads=9
CASE illegal_among_busy(void) {
    start(8, spin);
    __builtin_trap();
}

static bool first_thread_is_there(void) {
    char status[256] = {0}, *state;
    FILE *file = fopen("/proc/self/stat", "r");
    bool is_read = file && fread(status, 1, sizeof status - 1, file) && (state = strrchr(status, ')'));
    if (file) fclose(file);
    return !is_read || state[2] != 'Z';
}
__attribute__((noinline, noclone)) static void *abort_as_last(void *unused) {
    while (first_thread_is_there()) usleep(1000);
    abort();
    return unused;
}
// dies: SIGABRT, crash, threads=3, top=abort_as_last
CASE first_thread_left(void) {
    start(2, wait_for_ever);
    start(1, abort_as_last);
    pthread_exit(NULL);
}

static void hold_all_back(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}
// dies: SIGFPE, crash
CASE division_held_back(void) {
    hold_all_back();
    zero = (int)(uintptr_t)&zero / zero;
}

// dies: SIGILL, crash
CASE illegal_held_back(void) {
    hold_all_back();
    __builtin_trap();
}

static void came_too_early(int number) { _exit(number); }
// dies: 4, nothing
CASE sent_held_back(void) {
    siginfo_t info;
    sigset_t pending;
    hold_all_back();
    kill(getpid(), SIGFPE);
    signal(SIGILL, came_too_early); // installed while the signal is blocked
    raise(SIGILL);
    sigpending(&pending);
    if (!sigismember(&pending, SIGFPE) || !sigismember(&pending, SIGILL)) exit(5);
    sigemptyset(&pending);
    sigaddset(&pending, SIGFPE);
    exit(sigwaitinfo(&pending, &info) == SIGFPE && info.si_pid == getpid() ? 4 : 6);
}

__attribute__((noinline, noclone)) static int run_over(int depth) {
    volatile char frame[1000];
    frame[0] = (char)depth;
    return depth ? run_over(depth + 1) + frame[0] : frame[0];
}

static size_t room_bytes;
__attribute__((noinline, noclone)) static void abort_without_room(int signal) {
    static const char text[] = "no room\n";
    // Use all of the alternate stack except the signal frame and 2 KiB for this handler and libc.
    size_t used = room_bytes - getauxval(AT_MINSIGSTKSZ) - 2048;
    memset(alloca(used), signal, used);
    if (write(2, text, sizeof text - 1) > 0) abort();
}
// dies: SIGABRT, stack-overflow, message=^no room$, top=run_over, fault=SIGSEGV
CASE handler_without_room(void) {
    room_bytes = (getauxval(AT_MINSIGSTKSZ) + 2 * 4096 - 1) & ~(size_t)4095; // Rust's alternate stacks are no larger
    char *room = mmap(NULL, 4096 + room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = room + 4096, .ss_size = room_bytes};
    struct sigaction action = {.sa_handler = abort_without_room, .sa_flags = SA_ONSTACK};
    mprotect(room + 4096, room_bytes, PROT_READ | PROT_WRITE);
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    run_over(1);
}

// dies: SIGABRT, crash, message=^thread 'main' \(1\) panicked at ways\.rs:3:5:\nout of cheese$
CASE panic_with_backtrace(void) {
    fputs("starting\n", stderr);
    fputs("\nthread 'main' (1) panicked at ways.rs:3:5:\nout of cheese\n", stderr);
    fputs("stack backtrace:\n", stderr);
    for (int i = 0; i < 120; i++) fprintf(stderr, "  %2d: a_function\n             at ./ways.rs:%d:5\n", i, i);
    fputs("note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n", stderr);
    abort();
}

// dies: SIGSEGV, wild-access, top=call_of_data
CASE call_of_data(void) {
    char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(data, 0x90, 4096);
    ((void (*)(void))(void *)data)();
    zero++;
}

// dies: SIGSEGV, wild-access
CASE forbidden_instruction(void) { __asm__ volatile("hlt"); }

// Started by the test dies_after_its_parent.
CASE daemon_dies(void) {
    if (daemon(1, 1)) return;
    usleep(300000);
    abort();
}

// dies: 7, crash
CASE child_dies(void) {
    pid_t child = fork();
    if (!child) abort();
    int status;
    waitpid(child, &status, 0);
    exit(7);
}

// dies: SIGQUIT, nothing
CASE raise_quit(void) { raise(SIGQUIT); }

// dies: SIGTERM, nothing
CASE raise_term(void) { raise(SIGTERM); }

static const struct {
    const char *name;
    void (*function)(void);
} cases[] = {
#define WAY(name)                                                                                                      \
    { #name, name }
    WAY(abort_plain),
    WAY(assert_false),
    WAY(say_and_abort),
    WAY(write_and_abort),
    WAY(buffered_and_abort),
    WAY(smash),
    WAY(null_write),
    WAY(null_call),
    WAY(wild_read),
    WAY(constant_write),
    WAY(freed_read),
    WAY(freed_twice),
    WAY(freed_twice_among_threads),
    WAY(recursion),
    WAY(file_cut_off),
    WAY(illegal),
    WAY(breakpoint),
    WAY(division),
    WAY(raise_segv),
    WAY(raise_bus),
    WAY(raise_fpe),
    WAY(forbidden_call),
    WAY(file_too_long),
    WAY(too_long),
    WAY(abort_in_handler),
    WAY(abort_ignored),
    WAY(abort_handled),
    WAY(raised_by_handler),
    WAY(abort_among_threads),
    WAY(null_among_threads),
    WAY(abort_in_thread),
    WAY(illegal_among_busy),
    WAY(first_thread_left),
    WAY(division_held_back),
    WAY(illegal_held_back),
    WAY(sent_held_back),
    WAY(handler_without_room),
    WAY(panic_with_backtrace),
    WAY(call_of_data),
    WAY(forbidden_instruction),
    WAY(daemon_dies),
    WAY(child_dies),
    WAY(abort_annotated),
    WAY(raise_quit),
    WAY(raise_term),
};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (argc > 1 && !strcmp(argv[1], cases[i].name)) cases[i].function();
    return 3;
}
