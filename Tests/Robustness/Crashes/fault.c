// Causes one fault: WHAT happens, WHERE, with which of the program's own signal HANDLERs, while a resource is SHORT.
// crashes.py chooses the arguments, and also runs the program without the library to know the expected exit status.
// usage: fault WHAT WHERE HANDLER SHORT SEED [LIBRARY]
// Exit status: 77 the program's handler ended it, 78 the handler jumped, 79 the handler returned and the program
// continued, 76 the handler ran again, 75 the handler could not unprotect the page, 70 the handler got wrong signal
// information, 60 to 64 a failed system call or wrong usage, 0 no fault, 20 + a signal: a child died of it.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    LOW_ADDRESS = 8,
    WILD_ADDRESS = 0x13370000,
    BLOCK_BYTES = 48,
    LARGE_BYTES = 2 << 20,
    COROUTINE_BYTES = 16 << 10,
    THREADS = 4
};
#define GARBAGE UINT64_C(0x4141414141414141)

static const char *what, *where, *handler, *short_of;
static uint64_t chance;
static char *page, *truncated, *victims[THREADS], *larges[THREADS], *library;
static bool fix_is_possible;
static __thread int number; // index of the thread, if several fault at once
static __thread sigjmp_buf back;
static volatile int zero;
static pthread_key_t key;
static pthread_barrier_t barrier;
static volatile uint64_t sink;
// Fault address that the handler must get; -1: any.
static int64_t expected_address = -1;
static int expected_signal;

static bool is(const char *word, const char *name) { return strcmp(word, name) == 0; }

static uint64_t next(uint64_t below) {
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (chance >> 33) % below;
}

// Volatile loads and stores, so that the compiler keeps them.
#define READ(address) (sink = *(volatile uint64_t *)(address))
#define WRITE(address) (*(volatile uint64_t *)(address) = 1)
#define CALL(address) (((void (*)(void)) * (void *volatile *)&(void *){(void *)(address)})())

static __attribute__((noinline)) uint64_t overflow(uint64_t depth) {
    volatile char room[512];
    room[depth % sizeof room] = 1;
    return overflow(depth + 1) + (uint64_t)room[0];
}

static void expect(int signal, int64_t address) { expected_signal = signal, expected_address = address; }

static void fault(void) {
    char *victim = victims[number], *large = larges[number];
    if (is(what, "null")) expect(SIGSEGV, LOW_ADDRESS), READ(LOW_ADDRESS);
    if (is(what, "wild")) expect(SIGSEGV, WILD_ADDRESS), WRITE(WILD_ADDRESS);
    if (is(what, "garbage")) expect(SIGSEGV, 0), READ(GARBAGE);
    if (is(what, "protected")) expect(SIGSEGV, (int64_t)page + 64), WRITE(page + 64);
    if (is(what, "libc")) expect(SIGSEGV, -1), sink = strlen((char *)(volatile uintptr_t){LOW_ADDRESS});
    if (is(what, "jump-null")) expect(SIGSEGV, 0), CALL(0);
    if (is(what, "jump-wild")) expect(SIGSEGV, WILD_ADDRESS), CALL(WILD_ADDRESS);
    if (is(what, "jump-garbage")) expect(SIGSEGV, -1), CALL(GARBAGE);
    if (is(what, "jump-data")) expect(SIGSEGV, -1), CALL(victim);
    if (is(what, "illegal")) expect(SIGILL, -1), __builtin_trap();
    if (is(what, "divide")) expect(SIGFPE, -1), sink = (uint64_t)(1 / zero);
    if (is(what, "bus")) expect(SIGBUS, (int64_t)truncated), READ(truncated);
    if (is(what, "overflow")) expect(SIGSEGV, -1), sink = overflow(0);
    if (is(what, "abort")) expect(SIGABRT, -1), abort();
    if (is(what, "sent")) expect(SIGSEGV, -1), pthread_kill(pthread_self(), SIGSEGV);
    if (is(what, "stack-garbage")) {
        expect(SIGSEGV, -1);
        __asm__ volatile("mov %0, %%rsp; push %%rax" ::"r"(UINT64_C(0x10000)) : "memory");
    }
    // The remaining errors are those that only ZombieGuard detects.
    uint64_t *volatile block = (uint64_t *)victim;
    expect(SIGSEGV, -1);
    if (is(what, "freed-read")) free(block), READ(block + 2);
    if (is(what, "freed-write")) free(block), WRITE(block + 1);
    if (is(what, "freed-call")) free(block), CALL(block[1]);
    if (is(what, "freed-jump")) free(block), CALL(block);
    if (is(what, "freed-pointer")) free(block), READ(block[0]);
    if (is(what, "freed-large")) free(large), READ(large + 4096 * next(LARGE_BYTES / 4096));
    if (is(what, "beyond")) WRITE(victim + BLOCK_BYTES + 64);
    if (is(what, "free-twice")) expect(SIGABRT, -1), free(block), free(block);
    if (is(what, "free-inside")) expect(SIGABRT, -1), free(victim + 16);
}

// The program's own handler, with or without SA_SIGINFO.
static void on_signal(int signal, siginfo_t *info, void *context) {
    ucontext_t *interrupted = context;
    if (signal != expected_signal) _exit(70);
    if (info && info->si_signo != signal) _exit(70);
    if (info && expected_address != -1 && (int64_t)info->si_addr != expected_address) _exit(70);
    if (context && is(what, "null") && !interrupted->uc_mcontext.gregs[REG_RIP]) _exit(70);
    if (is(handler, "exit")) _exit(77);
    if (is(handler, "jump")) siglongjmp(back, 1);
    if (is(handler, "again")) {
        static bool came_again;
        if (came_again) _exit(76);
        came_again = true;
        expect(SIGSEGV, LOW_ADDRESS);
        READ(LOW_ADDRESS);
    }
    if (is(handler, "fix") && is(what, "protected")) {
        fix_is_possible = true;
        if (mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0) _exit(75); // RLIMIT_DATA would be exceeded
        return;
    }
    struct sigaction none = {.sa_handler = SIG_DFL};
    sigaction(signal, &none, NULL);
}

static void on_plain_signal(int signal) { on_signal(signal, NULL, NULL); }

static void install_handler(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    struct sigaction action = {.sa_handler = SIG_DFL};
    if (is(handler, "default")) return;
    if (is(handler, "ignore")) action.sa_handler = SIG_IGN;
    else if (next(4)) action.sa_sigaction = on_signal, action.sa_flags = SA_SIGINFO;
    else action.sa_handler = on_plain_signal;
    if (next(2)) action.sa_flags |= SA_ONSTACK;
    if (next(4) == 0) action.sa_flags |= SA_NODEFER;
    if (next(8) == 0) action.sa_flags |= SA_RESETHAND;
    if (next(4) == 0) sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, NULL);
}

// Sets an alternate signal stack of a random size (or none), with an inaccessible page below.
static void give_stack(void) {
    // A handler that itself faults needs room for a second signal frame, and for the frames of free.
    bool in_handler = is(where, "signal") || is(where, "blocked") || is(handler, "again");
    const int rooms[] = {0, in_handler ? 16384 : 1536, 32768, 65536};
    uint64_t choice = next(4);
    if (choice == 0) return;
    uint64_t bytes = (uint64_t)sysconf(_SC_MINSIGSTKSZ) + (uint64_t)rooms[choice],
             whole = (bytes + 4095) & ~UINT64_C(4095);
    char *low = mmap(NULL, whole + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (low == MAP_FAILED) return;
    mprotect(low, 4096, PROT_NONE);
    stack_t stack = {.ss_sp = low + 4096 + whole - bytes, .ss_size = bytes};
    sigaltstack(&stack, NULL);
}

static void take_all_memory(void) {
    struct rlimit limit;
    int resource = is(short_of, "data") ? RLIMIT_DATA : RLIMIT_AS;
    getrlimit(resource, &limit);
    limit.rlim_cur = 1 << 20;
    setrlimit(resource, &limit);
    for (size_t bytes = 1 << 20; bytes >= 16; bytes /= 2)
        for (int i = 0; i < 4096 && (sink = (uint64_t)malloc(bytes)) != 0; i++) {
        }
}

static void run_short(void) {
    if (is(short_of, "memory") || is(short_of, "data")) take_all_memory();
    if (is(short_of, "files")) {
        struct rlimit limit = {64, 1024};
        setrlimit(RLIMIT_NOFILE, &limit);
        while (dup(2) >= 0) {
        }
    }
    if (is(short_of, "no-files")) {
        struct rlimit limit = {0, 1024};
        for (int i = 3; i < 1100; i++) close(i);
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (is(short_of, "size")) {
        struct rlimit limit = {next(3000), RLIM_INFINITY};
        setrlimit(RLIMIT_FSIZE, &limit);
        signal(SIGXFSZ, SIG_IGN);
    }
    if (is(short_of, "processes")) {
        struct rlimit limit = {0, 0};
        setrlimit(RLIMIT_NPROC, &limit);
    }
}

static void fault_with_return(void) {
    if (is(handler, "jump") && sigsetjmp(back, 1)) {
        if (is(where, "exit") || is(where, "all") || is(where, "forking")) _exit(78);
        exit(78);
    }
    fault();
    if (fix_is_possible) exit(79);
}

static void *in_thread(void *own) {
    number = (int)(intptr_t)own;
    give_stack();
    if (is(where, "all")) pthread_barrier_wait(&barrier);
    fault_with_return();
    return NULL;
}

static void start_threads(int count, size_t stack_bytes) {
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack_bytes) pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attributes, in_thread, (void *)(intptr_t)i) != 0) _exit(60);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static ucontext_t main_context, coroutine;
static char *coroutine_stack;

static void in_signal(int unused) {
    (void)unused;
    fault_with_return();
}

static void in_child(void) {
    pid_t child = fork();
    if (child < 0) _exit(61);
    if (child == 0) {
        if (next(2)) start_threads(1, 0);
        else fault_with_return();
        exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    exit(WIFSIGNALED(status) ? 20 + WTERMSIG(status) : WEXITSTATUS(status));
}

static void in_destructor(void *unused) {
    (void)unused;
    fault_with_return();
}

static void *with_key(void *unused) {
    (void)unused;
    pthread_setspecific(key, &key);
    return NULL;
}

// Forks children while another thread faults.
static void *forking(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
        if (i == 0) pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void prepare(void) {
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int file = memfd_create("truncated", MFD_CLOEXEC);
    if (ftruncate(file, 4096) != 0) _exit(62);
    truncated = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (ftruncate(file, 0) != 0) _exit(62);
    close(file);
    for (int i = 0; i < THREADS; i++) {
        victims[i] = malloc(BLOCK_BYTES);
        larges[i] = malloc(LARGE_BYTES);
        memset(victims[i], 0, BLOCK_BYTES);
    }
    coroutine_stack = malloc(COROUTINE_BYTES);
    memset(coroutine_stack, 0, COROUTINE_BYTES);
}

int main(int count, char **words) {
    if (count < 6) return 64;
    what = words[1], where = words[2], handler = words[3], short_of = words[4];
    chance = strtoull(words[5], NULL, 0);
    library = count > 6 ? words[6] : NULL;
    prepare();
    give_stack();
    install_handler();
    if (is(where, "all") || is(where, "forking")) pthread_barrier_init(&barrier, NULL, 2);
    void *loaded = is(where, "unload") ? dlopen(library, RTLD_NOW) : NULL;
    if (loaded) *(void (**)(void))dlsym(loaded, "at_unload") = fault_with_return;
    run_short();
    if (is(where, "main")) fault_with_return();
    if (is(where, "thread")) start_threads(1, 0);
    if (is(where, "tiny")) start_threads(1, PTHREAD_STACK_MIN);
    if (is(where, "all")) start_threads(THREADS, 0);
    if (is(where, "child")) in_child();
    if (is(where, "exit")) atexit(fault_with_return), exit(0);
    if (is(where, "unload")) dlclose(loaded);
    if (is(where, "coroutine")) {
        getcontext(&coroutine);
        coroutine.uc_stack.ss_sp = coroutine_stack;
        coroutine.uc_stack.ss_size = COROUTINE_BYTES;
        coroutine.uc_link = &main_context;
        makecontext(&coroutine, fault_with_return, 0);
        swapcontext(&main_context, &coroutine);
    }
    if (is(where, "signal") || is(where, "blocked")) {
        struct sigaction action = {.sa_handler = in_signal, .sa_flags = next(2) ? SA_ONSTACK : 0};
        // the kernel kills a program that faults with the signal blocked
        if (is(where, "blocked")) sigfillset(&action.sa_mask);
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
    }
    if (is(where, "key")) {
        pthread_t thread;
        pthread_key_create(&key, in_destructor);
        if (pthread_create(&thread, NULL, with_key, NULL) != 0) _exit(60);
        pthread_join(thread, NULL);
    }
    if (is(where, "forking")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, forking, NULL) != 0) _exit(60);
        pthread_barrier_wait(&barrier);
        fault_with_return();
    }
    return 0;
}
