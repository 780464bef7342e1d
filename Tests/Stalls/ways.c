// C programs that stall their event loops, and some that do not; each function is one program.
// Tests/Detection/stalling.py reads the line in front of each function:
// stalls: top FUNCTION[, computing][, call=NAME][, held=FUNCTION][, freeze][, thread=NAME][, options=TEXT][, profile]
// or `nothing[, profile]`. profile: run with --profile sample, which collects stalls by default.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CASE __attribute__((noinline, noclone)) static void
#define STEP __attribute__((noinline, noclone)) static void
static volatile unsigned long sink;
static int pipes[2];

// Processor time of the thread: on a busy machine wall time includes time in which the thread does not run.
static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

STEP compute(double length) {
    for (double end = seconds() + length; seconds() < end;)
        for (int i = 0; i < 100000; i++) sink += (unsigned long)i;
}

STEP wait_by_poll(int milliseconds) {
    struct pollfd file = {pipes[0], POLLIN, 0};
    poll(&file, 1, milliseconds);
}

STEP turn(void (*wait)(int), void (*work)(double), double length) {
    for (int i = 0; i < 3; i++) wait(20);
    work(length);
    for (int i = 0; i < 3; i++) wait(20);
}

// stalls: compute, computing
CASE poll_computes(void) { turn(wait_by_poll, compute, 0.8); }

STEP wait_by_ppoll(int milliseconds) {
    struct pollfd file = {pipes[0], POLLIN, 0};
    struct timespec time = {0, milliseconds * 1000000L};
    ppoll(&file, 1, &time, NULL);
}
// stalls: compute, computing
CASE ppoll_computes(void) { turn(wait_by_ppoll, compute, 0.8); }

STEP wait_by_select(int milliseconds) {
    fd_set files;
    struct timeval time = {0, milliseconds * 1000};
    FD_ZERO(&files);
    FD_SET(pipes[0], &files);
    select(pipes[0] + 1, &files, NULL, NULL, &time);
}
// stalls: compute, computing
CASE select_computes(void) { turn(wait_by_select, compute, 0.8); }

STEP wait_by_pselect(int milliseconds) {
    fd_set files;
    struct timespec time = {0, milliseconds * 1000000L};
    FD_ZERO(&files);
    FD_SET(pipes[0], &files);
    pselect(pipes[0] + 1, &files, NULL, NULL, &time, NULL);
}
// stalls: compute, computing
CASE pselect_computes(void) { turn(wait_by_pselect, compute, 0.8); }

static int epoll = -1;
STEP wait_by_epoll(int milliseconds) {
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll < 0) epoll_ctl(epoll = epoll_create1(0), EPOLL_CTL_ADD, pipes[0], &event);
    if (epoll_wait(epoll, &event, 1, milliseconds) < 0) abort(); // stops for samples must not cause EINTR
}
// stalls: compute, computing
CASE epoll_computes(void) { turn(wait_by_epoll, compute, 0.8); }

STEP wait_by_number(int milliseconds) {
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll < 0) epoll_ctl(epoll = epoll_create1(0), EPOLL_CTL_ADD, pipes[0], &event);
    if (syscall(SYS_epoll_pwait, epoll, &event, 1, milliseconds, NULL, 8L) < 0) abort();
}
// stalls: compute, computing
CASE calls_by_number(void) { turn(wait_by_number, compute, 0.8); }

// Waits on an empty io_uring until the timeout.
static int ring = -1;
STEP wait_by_ring(int milliseconds) {
    struct io_uring_params parameters = {0};
    if (ring < 0) ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    struct __kernel_timespec time = {.tv_nsec = milliseconds * 1000000L};
    struct io_uring_getevents_arg more = {.ts = (unsigned long)&time};
    if (ring < 0) wait_by_number(milliseconds); // containers forbid io_uring
    else if (syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &more,
                     sizeof more) >= 0)
        abort();
}
// stalls: compute, computing
CASE ring_computes(void) { turn(wait_by_ring, compute, 0.8); }

STEP sleep_on(double length) { usleep((useconds_t)(length * 1e6)); }
// stalls: sleep_on, call=clock_nanosleep
CASE sleeps(void) { turn(wait_by_epoll, sleep_on, 0.8); }

static int other[2];
static void *write_late(void *length) {
    usleep((useconds_t)(*(double *)length * 1e6));
    if (write(other[1], "x", 1) != 1) abort();
    return NULL;
}
STEP read_on(double length) {
    pthread_t thread;
    char byte;
    if (pipe(other)) abort();
    pthread_create(&thread, NULL, write_late, &length);
    if (read(other[0], &byte, 1) != 1) abort();
    pthread_join(thread, NULL);
}
// stalls: read_on, call=read
CASE reads(void) { turn(wait_by_poll, read_on, 0.8); }

// System calls that may fail with EINTR or return early when the thread is stopped for a sample, which a program
// without signal handlers does not expect.
static void both_ends(void) {
    const struct timeval longest = {30, 0};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, other)) abort();
    if (setsockopt(other[0], SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest)) abort();
}
static void *send_late(void *length) {
    usleep((useconds_t)(*(double *)length * 1e6));
    if (write(other[1], "xy", 2) != 2) abort();
    return NULL;
}
STEP receive(double length) {
    pthread_t thread;
    char bytes[2];
    both_ends();
    pthread_create(&thread, NULL, send_late, &length);
    if (recv(other[0], bytes, sizeof bytes, 0) != 2) abort();
    pthread_join(thread, NULL);
}
// stalls: receive, call=recvfrom
CASE receives_with_timeout(void) { turn(wait_by_poll, receive, 0.8); }

STEP receive_all(double length) {
    pthread_t thread;
    char bytes[3];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, other) || write(other[1], "w", 1) != 1) abort();
    pthread_create(&thread, NULL, send_late, &length);
    struct iovec room = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1};
    if (recvmsg(other[0], &message, MSG_WAITALL) != 3) abort();
    pthread_join(thread, NULL);
}
// stalls: receive_all, call=recvmsg
CASE receives_all(void) { turn(wait_by_poll, receive_all, 0.8); }

enum { MUCH = 1 << 20 };
static char much[MUCH];
static void *read_late(void *length) {
    static char room[MUCH];
    usleep((useconds_t)(*(double *)length * 1e6));
    for (ssize_t rest = MUCH; rest > 0;) {
        ssize_t count = read(other[0], room, sizeof room);
        if (count <= 0) abort();
        rest -= count;
    }
    return NULL;
}
STEP write_much(double length) {
    pthread_t thread;
    if (pipe(other)) abort();
    pthread_create(&thread, NULL, read_late, &length);
    if (write(other[1], much, MUCH) != MUCH) abort();
    pthread_join(thread, NULL);
}
// stalls: write_much, call=write
CASE writes_to_pipe(void) { turn(wait_by_poll, write_much, 0.8); }

STEP send_much(double length) {
    pthread_t thread;
    both_ends();
    pthread_create(&thread, NULL, read_late, &length);
    if (send(other[1], much, MUCH, 0) != MUCH) abort();
    pthread_join(thread, NULL);
}
// stalls: send_much, call=sendto
CASE sends(void) { turn(wait_by_poll, send_much, 0.8); }

static int semaphore;
static void *give_late(void *length) {
    usleep((useconds_t)(*(double *)length * 1e6));
    if (semop(semaphore, &(struct sembuf){.sem_op = 1}, 1)) abort();
    return NULL;
}
STEP take(double length) {
    pthread_t thread;
    if ((semaphore = semget(IPC_PRIVATE, 1, 0600)) < 0) abort();
    pthread_create(&thread, NULL, give_late, &length);
    int result = semop(semaphore, &(struct sembuf){.sem_op = -1}, 1);
    semctl(semaphore, 0, IPC_RMID);
    if (result) abort();
    pthread_join(thread, NULL);
}
// stalls: take, call=semtimedop
CASE takes_semaphore(void) { turn(wait_by_poll, take, 0.8); }

STEP wait_for_signal(double length) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    struct timespec time = {(time_t)length, (long)((length - (double)(time_t)length) * 1e9)};
    if (sigtimedwait(&signals, NULL, &time) != -1 || errno != EAGAIN) abort();
}
// stalls: wait_for_signal, call=rt_sigtimedwait
CASE waits_for_signal(void) { turn(wait_by_poll, wait_for_signal, 0.8); }

STEP join(double length) {
    pthread_t thread;
    if (pipe(other)) abort();
    pthread_create(&thread, NULL, write_late, &length);
    pthread_join(thread, NULL);
}
// stalls: join, call=futex, held=write_late
CASE joins(void) { turn(wait_by_poll, join, 0.8); }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int is_held;
STEP hold(double length) {
    pthread_mutex_lock(&lock);
    is_held = 1;
    compute(length);
    pthread_mutex_unlock(&lock);
}
static void *hold_lock(void *length) {
    pthread_setname_np(pthread_self(), "holder");
    hold(*(double *)length);
    return NULL;
}
static void let_hold(pthread_t *thread, void *(*hold)(void *), double *length) {
    is_held = 0;
    pthread_create(thread, NULL, hold, length);
    while (!is_held) usleep(1000);
}
STEP take_lock(double length) {
    pthread_t thread;
    let_hold(&thread, hold_lock, &length);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}
// stalls: take_lock, call=futex, held=hold
CASE waits_for_lock(void) { turn(wait_by_poll, take_lock, 1); }

static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
STEP write_for_long(double length) {
    pthread_rwlock_wrlock(&shared);
    is_held = 1;
    compute(length);
    pthread_rwlock_unlock(&shared);
}
static void *hold_shared(void *length) {
    write_for_long(*(double *)length);
    return NULL;
}
static void take_shared(int (*take)(pthread_rwlock_t *), double length) {
    pthread_t thread;
    let_hold(&thread, hold_shared, &length);
    take(&shared);
    pthread_rwlock_unlock(&shared);
    pthread_join(thread, NULL);
}
STEP read_shared(double length) { take_shared(pthread_rwlock_rdlock, length); }
// stalls: read_shared, call=futex, held=write_for_long
CASE waits_to_read(void) { turn(wait_by_poll, read_shared, 1); }
STEP write_shared(double length) { take_shared(pthread_rwlock_wrlock, length); }
// stalls: write_shared, call=futex, held=write_for_long
CASE waits_to_write(void) { turn(wait_by_poll, write_shared, 1); }

// Sleeps, because computing takes longer on a busy machine: each turn would then be a stall of its own.
// stalls: sleep_on, call=clock_nanosleep
CASE often_a_little(void) {
    for (int i = 0; i < 4; i++) turn(wait_by_poll, sleep_on, 0.32);
}

// stalls: compute, computing, freeze
CASE never_goes_on(void) {
    wait_by_poll(20);
    wait_by_poll(20);
    signal(SIGALRM, SIG_DFL);
    alarm(2);
    compute(60);
}

// stalls: compute, computing, freeze
CASE is_killed(void) {
    wait_by_poll(20);
    wait_by_poll(20);
    if (!fork()) {
        usleep(1500000);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    compute(60);
}

static void *loop(void *unused) {
    pthread_setname_np(pthread_self(), "worker");
    turn(wait_by_poll, compute, 0.8);
    return unused;
}
static void run_loop(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, loop, NULL);
    pthread_join(thread, NULL);
}
// stalls: compute, computing, thread=worker, options=stall_threads=worker
CASE thread_by_name(void) { run_loop(); }
// stalls: compute, computing, thread=worker, options=stall_threads=all
CASE all_threads(void) { run_loop(); }
// nothing
CASE another_thread(void) { run_loop(); }

// stalls: compute, computing
CASE child_computes(void) {
    wait_by_poll(20);
    if (!fork()) {
        turn(wait_by_poll, compute, 0.8);
        _exit(0);
    }
    wait(NULL);
}

// nothing
CASE healthy(void) {
    for (int i = 0; i < 60; i++) turn(wait_by_epoll, compute, 0.002);
}

// Sleeps, because computing takes longer on a busy machine, and would then be a stall.
// nothing
CASE once_a_little(void) { turn(wait_by_poll, sleep_on, 0.3); }

// nothing
CASE waits_for_long(void) {
    for (int i = 0; i < 3; i++) wait_by_epoll(900);
}

// nothing
CASE is_no_loop(void) {
    wait_by_poll(1);
    compute(1.2);
}

// nothing
CASE is_stopped(void) {
    turn(wait_by_poll, compute, 0.01);
    if (!fork()) {
        usleep(100000);
        kill(getppid(), SIGSTOP);
        usleep(1200000);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    for (int i = 0; i < 30; i++) turn(wait_by_poll, compute, 0.02);
    wait(NULL);
}

// nothing
CASE executes_another(void) {
    turn(wait_by_poll, compute, 0.01);
    execl("/bin/sleep", "sleep", "1.5", NULL);
}

// --- event loops, and waits that are not event loops ----------------------------------------------------------------

static int socket_of_server = -1;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

STEP listen_for_others(void) {
    socklen_t length = sizeof(sa_family_t); // the kernel chooses an abstract name
    socket_of_server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(socket_of_server, (struct sockaddr *)&address, length) || listen(socket_of_server, 8)) abort();
    length = sizeof address;
    getsockname(socket_of_server, (struct sockaddr *)&address, &length);
    address.sun_path[sizeof address.sun_path - 1] = (char)length; // the short name leaves the last byte unused
}

static int connect_to_it(void) {
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(file, (struct sockaddr *)&address, (socklen_t)address.sun_path[sizeof address.sun_path - 1])) abort();
    return file;
}

static void *ask_twice(void *unused) {
    char byte = 'x';
    for (int i = 0; i < 2; i++) {
        int file = connect_to_it();
        usleep(20000);
        if (write(file, &byte, 1) != 1 || read(file, &byte, 1) != 1) abort();
        close(file);
    }
    return unused;
}

// Serves two connections, one after the other; the second request takes long. The waits have no timeout.
STEP serve_two(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, ask_twice, NULL);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = socket_of_server};
    int set = epoll_create1(0), served = 0, gone = 0;
    epoll_ctl(set, EPOLL_CTL_ADD, socket_of_server, &event);
    while (gone < 2) {
        if (epoll_wait(set, &event, 1, -1) != 1) abort();
        char byte;
        if (event.data.fd == socket_of_server) {
            event.data.fd = accept(socket_of_server, NULL, NULL);
            epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event);
        } else if (read(event.data.fd, &byte, 1) == 1) {
            if (++served == 2) compute(0.8);
            if (write(event.data.fd, "y", 1) != 1) abort();
        } else {
            gone++;
            close(event.data.fd);
        }
    }
    pthread_join(thread, NULL);
}

// stalls: compute, computing, profile
CASE second_request(void) {
    listen_for_others();
    serve_two();
}

static void *connect_late(void *unused) {
    usleep(1000000);
    close(connect_to_it());
    return unused;
}

// The thread accepts a connection before it waits a second time, which makes it an event loop at its first request.
// stalls: compute, computing
CASE first_request(void) {
    pthread_t thread;
    listen_for_others();
    pthread_create(&thread, NULL, connect_late, NULL);
    struct pollfd file = {socket_of_server, POLLIN, 0};
    if (poll(&file, 1, -1) != 1) abort();
    int connection = accept(socket_of_server, NULL, NULL);
    compute(0.8);
    close(connection);
    wait_by_poll(20);
    pthread_join(thread, NULL);
}

STEP run_child(int milliseconds) {
    if (!fork()) {
        usleep((useconds_t)milliseconds * 1000);
        _exit(0);
    }
    while (waitpid(-1, NULL, WNOHANG) == 0) wait_by_poll(10);
}

// stalls: compute, computing, profile
CASE server_with_children(void) {
    run_child(50);
    listen_for_others();
    serve_two();
}

// stalls: compute, computing, profile
CASE idle_after_children(void) {
    run_child(50);
    for (int i = 0; i < 60; i++) wait_by_poll(100);
    compute(0.8);
    wait_by_poll(20);
}

// nothing, profile
CASE waits_for_children(void) {
    for (int i = 0; i < 3; i++) {
        run_child(100);
        compute(0.8);
    }
}

// nothing, profile
CASE looks_whether_something_came(void) {
    for (int i = 0; i < 20; i++) wait_by_poll(0);
    for (int i = 0; i < 20; i++) wait_by_select(0);
    for (int i = 0; i < 20; i++) wait_by_epoll(0);
    for (int i = 0; i < 20; i++) wait_by_number(0);
    compute(0.8);
    wait_by_poll(0);
}

static void *write_later(void *unused) {
    usleep(30000);
    if (write(pipes[1], "x", 1) != 1) abort();
    return unused;
}

// A client that waits for one answer after the other is not an event loop.
// nothing, profile
CASE waits_for_answers(void) {
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        char byte;
        pthread_create(&thread, NULL, write_later, NULL);
        if (i == 1) wait_by_select(900);
        else wait_by_poll(-1);
        if (read(pipes[0], &byte, 1) != 1) abort();
        pthread_join(thread, NULL);
        compute(0.8);
    }
}

// nothing, profile
CASE sleeps_by_waits(void) {
    for (int i = 0; i < 5; i++) {
        struct timeval time = {0, 20000};
        poll(NULL, 0, 20);
        select(0, NULL, NULL, NULL, &time);
    }
    compute(0.8);
    poll(NULL, 0, 20);
}

// nothing, profile
CASE ends_by_itself(void) {
    for (int i = 0; i < 5; i++) wait_by_poll(20);
    compute(0.8);
}

// A blocking accept() is a wait for the next request, not a stall.
// nothing
CASE accepts(void) {
    pthread_t thread;
    listen_for_others();
    for (int i = 0; i < 3; i++) wait_by_poll(20);
    pthread_create(&thread, NULL, connect_late, NULL);
    close(accept(socket_of_server, NULL, NULL));
    pthread_join(thread, NULL);
    wait_by_poll(20);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
// clang-format off
#define CASES(X)                                                                                                       \
    X(poll_computes)                                                                                                   \
    X(ppoll_computes)                                                                                                  \
    X(select_computes) X(pselect_computes) X(epoll_computes) X(calls_by_number) X(ring_computes) X(sleeps) X(reads) X(receives_with_timeout) X(receives_all) X(writes_to_pipe) X(sends) X(takes_semaphore) X(waits_for_signal) X(joins) X(waits_for_lock) X(waits_to_read) X(waits_to_write) X(often_a_little)    \
        X(never_goes_on) X(is_killed) X(thread_by_name) X(all_threads) X(another_thread) X(child_computes) X(healthy)  \
            X(once_a_little) X(waits_for_long) X(is_no_loop) X(is_stopped) X(executes_another)          \
                X(second_request) X(first_request) X(server_with_children) X(idle_after_children) X(waits_for_children)                 \
                    X(looks_whether_something_came) X(waits_for_answers) X(sleeps_by_waits) X(ends_by_itself) X(accepts)
// clang-format on
#define X(name) {#name, name},
    CASES(X)
#undef X
};

int main(int count, char **words) {
    if (pipe(pipes)) return 2;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (count > 1 && !strcmp(cases[i].name, words[1])) return cases[i].run(), 0;
    return 3;
}
