// A process of more than 32 MiB for Tests/Graph/copies.py. Loses 3 blocks, and keeps all others. Prints "ready". At the
// end of its input it checks itself, prints "good" or what is wrong, and ends.
// usage: copied WAY COUNT    what the process does or has (see `ways`); number of blocks that are kept

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, PAGE = 4096, BULK = 40 << 20 };

void ***kept;
char *bulk;
static volatile int ends, child_signals, is_broken;
static void **region; // memory with the only reference to a block
static size_t region_bytes = PAGE;

__attribute__((noinline)) static void make_blocks(long count) {
    kept = malloc((size_t)count * sizeof *kept);
    for (long i = 0; i < count; i++) {
        kept[i] = malloc(200);
        memset(kept[i], 0, 200);
        kept[i][0] = i ? kept[i - 1] : NULL;
    }
    bulk = mmap(NULL, BULK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long at = 0; at < BULK; at += PAGE) bulk[at] = 1;
    for (int i = 0; i < 3; i++) {
        volatile char *lost = malloc(100);
        lost[0] = 1;
    }
}

__attribute__((noinline)) static void fill_region(void) { region[0] = malloc(321); }

__attribute__((noinline)) static void scrub(void) {
    volatile char room[8192];
    memset((void *)room, 0, sizeof room);
}

static void fail(const char *what) {
    if (!is_broken) printf("%s: %s\n", what, strerror(errno));
    is_broken = 1;
}

static void map_region(int flags) {
    region = mmap(NULL, region_bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED) fail("mmap");
    else fill_region();
}

static void advise_region(int advice) {
    map_region(MAP_PRIVATE);
    if (madvise(region, region_bytes, advice)) fail("madvise");
}

// Memory that a fork does not copy.
static void plain(void) {}
static void shared(void) { map_region(MAP_SHARED); }
static void left_out(void) { advise_region(MADV_DONTFORK); }
static void wiped(void) { advise_region(MADV_WIPEONFORK); }
// Heap blocks that a fork leaves out (MADV_DONTFORK).
static void left_out_blocks(void) {
    char *block = malloc(64 * PAGE);
    memset(block, 0, 64 * PAGE);
    region = (void **)(((size_t)block + PAGE - 1) / PAGE * PAGE);
    fill_region();
    if (madvise(region, 8 * PAGE, MADV_DONTFORK)) fail("madvise");
}
static void much_shared(void) {
    region_bytes = (size_t)300 << 20;
    map_region(MAP_SHARED);
    for (size_t at = 0; at < region_bytes; at += PAGE) ((char *)region)[at + PAGE / 2] = 1;
}

// Forks a child and waits for any child: must get this child only, and not the copy that zguard makes of the process.
static int wait_flags;
static void *wait_for_children(void *unused) {
    while (!ends) {
        pid_t own = fork();
        if (!own) _exit(7);
        if (own < 0) fail("fork");
        int status;
        pid_t found = waitpid(-1, &status, wait_flags);
        if (found != own || !WIFEXITED(status) || WEXITSTATUS(status) != 7) fail("waitpid returned another child");
        errno = 0;
        if (waitpid(-1, &status, WNOHANG | wait_flags) != -1 || errno != ECHILD) fail("there is another child");
    }
    return unused;
}
static void count_child(int signal) {
    (void)signal;
    child_signals++;
}
static pthread_t worker;
static void start(void *(*body)(void *)) {
    if (pthread_create(&worker, NULL, body, NULL)) fail("pthread_create");
}
static void children(void) { start(wait_for_children); }
static void all_children(void) {
    wait_flags = __WALL;
    start(wait_for_children);
}
static void child_signal(void) {
    struct sigaction action = {.sa_handler = count_child};
    sigaction(SIGCHLD, &action, NULL);
}

// Sleeps, waits and signals must work as without `zguard leaks`.
static volatile long ticks;
static void tick(int signal) {
    (void)signal;
    ticks++;
}
static void *sleep_and_wait(void *unused) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); // the timer's signals go to other threads
    while (!ends) {
        struct timespec pause = {.tv_nsec = 3000000}, start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        if (nanosleep(&pause, NULL)) fail("nanosleep");
        clock_gettime(CLOCK_MONOTONIC, &end);
        if ((end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec < pause.tv_nsec)
            fail("a short sleep");
        if (poll(NULL, 0, 3)) fail("poll");
        int ends_of_pipe[2];
        char byte = 0;
        if (pipe(ends_of_pipe)) fail("pipe");
        if (write(ends_of_pipe[1], "x", 1) != 1 || read(ends_of_pipe[0], &byte, 1) != 1 || byte != 'x') fail("read");
        close(ends_of_pipe[0]), close(ends_of_pipe[1]);
    }
    return unused;
}
static void sleeps(void) { start(sleep_and_wait); }
static void check_mask(void) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int signal = 1; signal < 32; signal++)
        if (sigismember(&mask, signal)) fail("a signal is blocked");
}
static void *compute(void *unused) {
    unsigned long a = 1, b = 2;
    double x = 1;
    while (!ends) {
        for (int i = 0; i < 1000; i++) a = a * 3 + b, b ^= a >> 7, x = x * 0.5 + 1;
        unsigned long c = 1, d = 2;
        for (int i = 0; i < 1000; i++) c = c * 3 + d, d ^= c >> 7;
        unsigned long e = 1, f = 2;
        for (int i = 0; i < 1000; i++) e = e * 3 + f, f ^= e >> 7;
        if (c != e || d != f) fail("registers have changed");
        if (x < 1.9 || x > 2) fail("vectors have changed");
        check_mask();
    }
    return unused;
}
static void computes(void) { start(compute); }
static void timer(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &every, NULL);
    start(compute);
}
static void *allocate(void *unused) {
    void *own[64] = {0};
    for (unsigned i = 0; !ends; i++) {
        free(own[i % 64]);
        own[i % 64] = malloc(16 + i % 500);
    }
    for (int i = 0; i < 64; i++) free(own[i]);
    return unused;
}
static void threads(void) {
    for (int i = 0; i < THREADS; i++) start(allocate);
}

// Limits and filters.
static void few_processes(void) {
    struct rlimit limit = {1, 1};
    if (setrlimit(RLIMIT_NPROC, &limit)) fail("setrlimit");
}
static void filtered(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) fail("prctl");
}
static void reaper(void) { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }
static void ring(void) {
    struct io_uring_params parameters = {0};
    // If the kernel lacks io_uring, the driver skips this case.
    if (syscall(SYS_io_uring_setup, 4, &parameters) < 0) puts("unavailable");
}

static const struct {
    const char *name;
    void (*begin)(void);
} ways[] = {
    {"plain", plain},
    {"shared", shared},
    {"left-out", left_out},
    {"wiped", wiped},
    {"left-out-blocks", left_out_blocks},
    {"much-shared", much_shared},
    {"children", children},
    {"all-children", all_children},
    {"child-signal", child_signal},
    {"sleeps", sleeps},
    {"computes", computes},
    {"timer", timer},
    {"threads", threads},
    {"few-processes", few_processes},
    {"filtered", filtered},
    {"reaper", reaper},
    {"io-uring", ring},
};

int main(int argument_count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argument_count < 3) return 64;
    make_blocks(atol(arguments[2]));
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return 1;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(ways[i].name, arguments[1])) ways[i].begin();
    scrub();
    puts("ready");
    char byte;
    ssize_t count;
    while ((count = read(0, &byte, 1)) > 0 || (count < 0 && errno == EINTR)) {
        // The peer of a closed socket sees the end at once, even while zguard reads a copy of this process.
        if (byte == 'c') {
            close(sockets[1]);
            struct pollfd wait = {.fd = sockets[0], .events = POLLIN};
            if (poll(&wait, 1, 5000) != 1 || !(wait.revents & POLLHUP)) fail("a closed socket is open");
            puts("closed");
        }
    }
    ends = 1;
    int status;
    if (child_signals) fail("there was a SIGCHLD");
    if (worker) pthread_join(worker, NULL);
    check_mask();
    errno = 0;
    if (waitpid(-1, &status, WNOHANG | __WALL) != -1 || errno != ECHILD) fail("a child is left");
    if (!is_broken) puts("good");
    _exit(is_broken);
}
