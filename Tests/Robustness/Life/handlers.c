// Scenarios with fault handlers of the program's own, which must work as they do without the library.

#include "scenario.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <setjmp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile int calls, last_number, last_code;
static void *volatile last_address;
static char *page;
static size_t page_bytes;

static void note(int number, siginfo_t *info, void *context) {
    (void)context;
    calls++;
    last_number = number;
    last_code = info->si_code;
    last_address = info->si_addr;
}
static void jump_back(int number, siginfo_t *info, void *context) {
    note(number, info, context);
    siglongjmp(back, 1);
}
static void simple_jump(int number) {
    calls++;
    last_number = number;
    siglongjmp(back, 1);
}
static void open_page(int number, siginfo_t *info, void *context) {
    note(number, info, context);
    char *at = info->si_addr;
    if (at < page || at >= page + page_bytes) _exit(70);
    mprotect((void *)((uintptr_t)at & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
}
static void install(int number, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    MUST(sigaction(number, &action, NULL) == 0, "a handler is installed");
}
static void back_to_default(void) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
}

// A fault handler makes pages accessible at their first use, and implements write barriers.
static void barriers(void) {
    page_bytes = 200 * 4096;
    page = mmap(NULL, page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    install(SIGSEGV, open_page, 0);
    for (size_t i = 0; i < page_bytes; i += 4096) page[i + 17] = 1;
    MUST(calls == 200, "each page is opened by the handler");
    mprotect(page, page_bytes, PROT_READ);
    for (size_t i = 0; i < page_bytes; i += 4096) page[i + 18] = 1;
    MUST(calls == 400 && last_code == SEGV_ACCERR, "and written to after another fault");
    // The program protects pages of a guarded block, and makes them accessible again.
    char *block = aligned_alloc(4096, 64 << 10);
    page = block;
    page_bytes = 64 << 10;
    memset(block, 1, page_bytes);
    mprotect(block, page_bytes, PROT_READ);
    for (size_t i = 0; i < page_bytes; i += 4096) block[i] = 2;
    MUST(calls == 416, "pages of a block in use are the program's");
    free(block);
    back_to_default();
}

// Reads from an address to test whether it is readable.
static NOINLINE int is_readable(const volatile char *address) {
    if (sigsetjmp(back, 1)) return 0;
    (void)*address;
    return 1;
}
static void probing(void) {
    install(SIGSEGV, jump_back, 0);
    install(SIGBUS, jump_back, 0);
    char *map = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(map + 4096, 4096, PROT_NONE);
    for (int i = 0; i < 200; i++) {
        MUST(!is_readable((char *)(uintptr_t)(i * 8)), "null pages are not readable");
        MUST(last_number == SIGSEGV && last_address == (void *)(uintptr_t)(i * 8),
             "the handler is told what and where");
        MUST(is_readable(map) && !is_readable(map + 5000) && is_readable(map + 8192), "mappings are told apart");
        MUST(!is_readable((char *)(uintptr_t)0x1234567890abcdef), "what is no address is not readable");
        free(malloc((size_t)i * 40));
    }
    int file = memfd_create("empty", 0);
    char *behind = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    MUST(!is_readable(behind) && last_number == SIGBUS, "behind the end of a file is SIGBUS");
    back_to_default();
}

// Installs handlers with several functions and flags, and examines the previous handler that each call returns.
static void ways(void) {
    struct sigaction old;
    sigaction(SIGSEGV, NULL, &old);
    MUST(old.sa_handler == SIG_DFL && !(old.sa_flags & SA_SIGINFO), "there is no handler at first");
    void (*const setters[])(int) = {simple_jump, simple_jump, simple_jump};
    for (int i = 0; i < 3; i++) {
        sighandler_t before = i == 0   ? signal(SIGSEGV, setters[i])
                              : i == 1 ? sysv_signal(SIGSEGV, setters[i])
                                       : ssignal(SIGSEGV, setters[i]);
        say("before way %d: %d", i, before == SIG_DFL ? 0 : before == simple_jump ? 1 : 2);
        calls = 0;
        if (!sigsetjmp(back, 1)) *(volatile int *)4 = 1;
        sigaction(SIGSEGV, NULL, &old);
        say("way %d: %d call, handler stays %d, flags %x", i, calls, old.sa_handler == simple_jump,
            old.sa_flags & ~0x04000000);
    }
    // Tests SA_RESETHAND, SA_NODEFER, and a chain of handlers.
    install(SIGSEGV, jump_back, SA_RESETHAND | SA_NODEFER);
    calls = 0;
    if (!sigsetjmp(back, 1)) *(volatile int *)4 = 1;
    sigaction(SIGSEGV, NULL, &old);
    MUST(calls == 1 && old.sa_handler == SIG_DFL, "SA_RESETHAND is for once");
    install(SIGSEGV, jump_back, SA_NODEFER | SA_ONSTACK);
    for (int i = 0; i < 5; i++)
        if (!sigsetjmp(back, 0)) *(volatile int *)4 = 1;
    MUST(calls == 6, "with SA_NODEFER again and again, masks unsaved");
    sigaction(SIGSEGV, NULL, &old);
    MUST(old.sa_flags & SA_NODEFER && old.sa_flags & SA_ONSTACK && old.sa_sigaction == jump_back,
         "and as it was asked for");
    signal(SIGSEGV, SIG_IGN);
    raise(SIGSEGV);
    MUST(signal(SIGSEGV, SIG_DFL) == SIG_IGN, "a sent one can be ignored");
    // Reads the kernel's own record of the handler, without libc.
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } bare = {0}, found = {0};
    syscall(SYS_rt_sigaction, SIGSEGV, NULL, &bare, 8);
    syscall(SYS_rt_sigaction, SIGSEGV, &bare, &found, 8);
    MUST(found.handler == bare.handler, "a bare system call gives what was set");
}

// If a crash handler faults, too, the process dies, as it does without the library.
static void fault_again(int number) {
    (void)number;
    *(volatile int *)12 = 1;
    _exit(3);
}
// A chained handler: handles a fault at 0x30 itself, and forwards all others to the previous handler.
static struct sigaction in_front_of;
static void chained(int number, siginfo_t *info, void *context) {
    if (info->si_addr == (void *)0x30) siglongjmp(back, 1);
    if (in_front_of.sa_flags & SA_SIGINFO) in_front_of.sa_sigaction(number, info, context);
    else if (in_front_of.sa_handler != SIG_DFL && in_front_of.sa_handler != SIG_IGN) in_front_of.sa_handler(number);
    else {
        sigaction(number, &in_front_of, NULL);
        return;
    }
}
static void nested(void) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, fault_again);
        *(volatile int *)8 = 1;
        _exit(4);
    }
    int status = status_of(child);
    MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "a fault in a fault handler is the end");
    install(SIGSEGV, jump_back, 0);
    struct sigaction action = {.sa_sigaction = chained, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, &in_front_of);
    calls = 0;
    if (!sigsetjmp(back, 1)) *(volatile int *)0x30 = 1;
    MUST(calls == 0, "the first of a chain takes what is its own");
    if (!sigsetjmp(back, 1)) *(volatile int *)0x38 = 1;
    MUST(calls == 1 && last_address == (void *)0x38, "the second takes the rest");
    // As crash reporters do, `chained` restores the default action and returns, so that the instruction faults again.
    // Here the fault is the bug that is planted after the scenario.
    back_to_default();
    sigaction(SIGSEGV, &action, &in_front_of);
    MUST(in_front_of.sa_handler == SIG_DFL, "nobody was before");
}

// As crash reporters do, forks a process in the handler; the new process inspects the crashing one.
static void report_crash(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    pid_t crashed = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        int status = 0;
        if (ptrace(PTRACE_ATTACH, crashed, NULL, NULL) != 0) _exit(1);
        waitpid(crashed, &status, __WALL);
        errno = 0;
        long word = ptrace(PTRACE_PEEKDATA, crashed, &calls, NULL);
        ptrace(PTRACE_DETACH, crashed, NULL, NULL);
        _exit((int)word == calls && errno == 0 ? 0 : 2);
    }
    int status = 0;
    while (waitpid(child, &status, 0) != child && errno == EINTR) {
    }
    say("the crash reporter ended with %d", status);
    signal(number, SIG_DFL);
}
static void crash_reporter(void) {
    pid_t child = fork();
    if (child == 0) {
        install(SIGSEGV, report_crash, SA_ONSTACK);
        *(volatile int *)8 = 1;
        _exit(4);
    }
    int status = status_of(child);
    MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "a crash that was reported is the end");
    child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_handler = SIG_DFL};
        sigaction(SIGSEGV, &action, NULL);
        plant();
        _exit(0);
    }
    MUST(planted_well(status_of(child)), "a bug beside a crash reporter");
}

// First one thread faults, then several at once. The handler jumps back to where its thread was before the fault.
static void many_threads_body(void) {
    for (int i = 0; i < 200; i++) is_readable((char *)(uintptr_t)(i * 8));
}
static __thread sigjmp_buf own_back;
static void own_jump(int number) {
    (void)number;
    siglongjmp(own_back, 1);
}
static void *probe_in_thread(void *unused) {
    for (volatile int i = 0; i < 500; i++) {
        if (!sigsetjmp(own_back, 1)) *(volatile char *)(uintptr_t)(i * 4) = 1;
        if (i % 10 == 0) MUST(work_with_blocks(5) == 0, "works between faults");
    }
    return unused;
}
static void many_threads(void) {
    install(SIGSEGV, jump_back, 0);
    many_threads_body();
    signal(SIGSEGV, own_jump);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, probe_in_thread, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    back_to_default();
}

// The stack may overflow inside malloc or free. The program continues after the overflow.
static NOINLINE int run_over(int depth) {
    volatile char room[2000];
    room[depth % 2000] = 1;
    free(malloc((size_t)depth % 3000));
    return depth < 0 ? 0 : run_over(depth + 1) + room[depth % 2000];
}
static void stack_overflow(void) {
    static char own[64 << 10];
    stack_t stack = {.ss_sp = own, .ss_size = sizeof own};
    struct rlimit limit = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_STACK, &limit);
    sigaltstack(&stack, NULL);
    install(SIGSEGV, jump_back, SA_ONSTACK);
    for (volatile int i = 0; i < 5; i++) {
        if (!sigsetjmp(back, 1)) run_over(i);
        MUST(work_with_blocks(100) == 0, "works after a stack overflow");
    }
    back_to_default();
}

// userfaultfd: a thread of the program serves faults of a mapping and of blocks, and allocates meanwhile.
static int served, faults_from = -1, end_pipe[2];
static void *serve_faults(void *unused) {
    struct pollfd ready[2] = {{.fd = faults_from, .events = POLLIN}, {.fd = end_pipe[0], .events = POLLIN}};
    while (poll(ready, 2, -1) > 0 && !ready[1].revents) {
        struct uffd_msg message;
        if (read(faults_from, &message, sizeof message) != sizeof message) continue;
        char *contents = aligned_alloc(4096, 4096);
        memset(contents, 'u', 4096);
        struct uffdio_copy copy = {
            .dst = message.arg.pagefault.address & ~UINT64_C(4095), .src = (uintptr_t)contents, .len = 4096};
        if (ioctl(faults_from, UFFDIO_COPY, &copy) == 0) __atomic_fetch_add(&served, 1, __ATOMIC_RELAXED);
        free(contents);
    }
    return unused;
}
static bool register_faults(char *start, size_t bytes) {
    struct uffdio_register range = {.range = {(uintptr_t)start, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    return madvise(start, bytes, MADV_DONTNEED) == 0 && ioctl(faults_from, UFFDIO_REGISTER, &range) == 0;
}
static void faults_by_thread(void) {
    enum { BYTES = 64 * 4096, AGAIN = 20 };
    pthread_t thread;
    struct uffdio_api api = {.api = UFFD_API};
    faults_from = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (faults_from < 0) return; // kernels and sandboxes may refuse userfaultfd
    MUST(ioctl(faults_from, UFFDIO_API, &api) == 0 && pipe(end_pipe) == 0, "userfaultfd");
    char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *block = aligned_alloc(4096, BYTES), *freed = aligned_alloc(4096, BYTES);
    MUST(register_faults(own, BYTES), "a mapping is registered");
    MUST(register_faults(block, BYTES) && register_faults(freed, BYTES), "blocks are registered");
    pthread_create(&thread, NULL, serve_faults, NULL);
    for (size_t i = 0; i < BYTES; i += 4096)
        MUST(own[i + 5] == 'u' && block[i + 6] == 'u', "each page comes from the thread");
    // The heap itself touches the registered pages while the serving thread allocates.
    for (int i = 0; i < AGAIN; i++) {
        free(freed);
        freed = aligned_alloc(4096, BYTES);
        memset(freed, i, BYTES);
        MUST(work_with_blocks(200) == 0, "works meanwhile");
        register_faults(freed, BYTES);
    }
    block = realloc(block, 3 * BYTES);
    MUST(block[BYTES - 1] == 'u', "contents move");
    free(block);
    free(freed);
    MUST(work_with_blocks(500) == 0, "works afterwards");
    MUST(write(end_pipe[1], "", 1) == 1 && pthread_join(thread, NULL) == 0, "the thread ends");
    MUST(served >= 2 * BYTES / 4096, "one fault a page at least");
    close(faults_from);
    munmap(own, BYTES);
}

const struct scenario scenarios[] = {
    {"barriers", barriers, ""},
    {"probing", probing, ""},
    {"ways", ways, ""},
    {"nested", nested, "own=null-access"},
    {"crash-reporter", crash_reporter, "findings=2 own=null-access"},
    {"many-threads", many_threads, ""},
    {"stack-overflow", stack_overflow, ""},
    {"faults-by-thread", faults_by_thread, ""},
    {NULL, NULL, NULL},
};
