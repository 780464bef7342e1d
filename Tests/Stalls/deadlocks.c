// C programs that deadlock, or only seem to; each function is one program. Tests/Detection/stalling.py reads the line
// in front of each function, as in ways.c. Further words there: deadlock: the finding is a deadlock; waits=FUNCTION: a
// third thread waits, in FUNCTION; circle: the main thread is not part of the cycle.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CASE __attribute__((noinline, noclone)) static void
#define STEP __attribute__((noinline, noclone)) static void
static pthread_mutex_t locks[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static atomic_int ready;

// Waits for events, as an event loop does, in the main thread. SIGALRM ends the process after two seconds.
STEP begin(void) {
    for (int i = 0; i < 3; i++) poll(NULL, 0, 20);
    alarm(2);
}

STEP settle(int threads) {
    while (ready < threads) usleep(1000);
    usleep(20000);
}

STEP take_again(pthread_mutex_t *lock) {
    pthread_mutex_lock(lock);
    ready = -1;
}

// stalls: take_again, call=futex, freeze, deadlock
CASE own_lock(void) {
    begin();
    pthread_mutex_lock(&locks[0]);
    take_again(&locks[0]);
}

static pthread_mutex_t of_kind(int kind, int protocol, int robust) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t lock;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kind);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutexattr_setrobust(&attributes, robust);
    pthread_mutex_init(&lock, &attributes);
    return lock;
}

STEP take_second(int number) {
    pthread_mutex_lock(&locks[number]);
    pthread_mutex_unlock(&locks[number]);
}

static int count = 2;

STEP hold_and_take(int number) {
    pthread_mutex_lock(&locks[number]);
    ready++;
    settle(count);
    take_second((number + 1) % count);
}

static void *other(void *number) {
    hold_and_take((int)(long)number);
    return NULL;
}

STEP threads_wait(void) {
    pthread_t thread;
    begin();
    for (long i = 1; i < count; i++) pthread_create(&thread, NULL, other, (void *)i);
    hold_and_take(0);
}

// stalls: take_second, call=futex, held=hold_and_take, freeze, deadlock
CASE two_locks(void) { threads_wait(); }

// stalls: take_second, call=futex, held=hold_and_take, waits=hold_and_take, freeze, deadlock
CASE three_locks(void) {
    count = 3;
    threads_wait();
}

// stalls: take_second, call=futex, held=hold_and_take, freeze, deadlock
CASE robust_locks(void) {
    for (int i = 0; i < 2; i++) locks[i] = of_kind(PTHREAD_MUTEX_DEFAULT, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
    threads_wait();
}

// stalls: take_second, call=futex, held=hold_and_take, freeze, deadlock
CASE recursive_locks(void) {
    for (int i = 0; i < 2; i++) locks[i] = of_kind(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
    threads_wait();
}

static void *take_first(void *unused) {
    ready++;
    take_second(0);
    return unused;
}

STEP join(pthread_t thread) { pthread_join(thread, NULL); }

// stalls: join, call=futex, held=take_first, freeze, deadlock
CASE joins_while_holding(void) {
    pthread_t thread;
    begin();
    pthread_mutex_lock(&locks[0]);
    pthread_create(&thread, NULL, take_first, NULL);
    settle(1);
    join(thread);
}

// The main thread is not part of the cycle, but waits for a lock of the cycle.
// stalls: take_second, call=futex, held=hold_and_take, waits=hold_and_take, freeze, deadlock, circle
CASE beside_a_circle(void) {
    pthread_t thread;
    begin();
    for (long i = 0; i < 2; i++) pthread_create(&thread, NULL, other, (void *)i);
    settle(2);
    take_second(0);
}

// A thread that has waited for events only once is not an event loop, but its deadlock is found nevertheless.
// stalls: take_again, call=futex, freeze, deadlock
CASE is_no_loop(void) {
    poll(NULL, 0, 20);
    alarm(2);
    pthread_mutex_lock(&locks[0]);
    take_again(&locks[0]);
}

// stalls: take_again, call=futex, freeze, deadlock, profile
CASE in_profile_sample(void) {
    begin();
    pthread_mutex_lock(&locks[0]);
    take_again(&locks[0]);
}

static pthread_rwlock_t shared[2] = {PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER};

STEP read_shared(int number) { pthread_rwlock_rdlock(&shared[number]); }
STEP write_shared(int number) { pthread_rwlock_wrlock(&shared[number]); }

static void *write_and_take(void *unused) {
    write_shared(0);
    ready++;
    settle(1);
    take_second(0);
    return unused;
}

// stalls: read_shared, call=futex, held=write_and_take, freeze, deadlock
CASE reads_what_is_written(void) {
    pthread_t thread;
    begin();
    pthread_mutex_lock(&locks[0]);
    pthread_create(&thread, NULL, write_and_take, NULL);
    settle(1);
    read_shared(0);
}

static void *write_both(void *unused) {
    write_shared(0);
    ready++;
    settle(2);
    write_shared(1);
    return unused;
}

// stalls: write_shared, call=futex, held=write_both, freeze, deadlock
CASE both_are_written(void) {
    pthread_t thread;
    begin();
    pthread_create(&thread, NULL, write_both, NULL);
    write_shared(1);
    ready++;
    settle(2);
    write_shared(0);
}

static void *read_what_is_written(void *unused) {
    write_shared(0);
    ready++;
    settle(2);
    read_shared(1);
    return unused;
}

// stalls: read_shared, call=futex, held=read_what_is_written, freeze, deadlock
CASE both_are_read(void) {
    pthread_t thread;
    begin();
    pthread_create(&thread, NULL, read_what_is_written, NULL);
    write_shared(1);
    ready++;
    settle(2);
    read_shared(0);
}

// The kernel knows the owners of mutexes with priority inheritance, but not the owners of other mutexes.
// stalls: take_second, call=futex, held=hold_and_take, freeze, deadlock
CASE one_inherits_priority(void) {
    locks[1] = of_kind(PTHREAD_MUTEX_DEFAULT, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
    threads_wait();
}

// --- no deadlocks ------------------------------------------------------------------------------------------------

STEP take_in_time(int number, int milliseconds) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += milliseconds / 1000;
    end.tv_nsec += milliseconds % 1000 * 1000000L;
    if (end.tv_nsec >= 1000000000L) end.tv_sec++, end.tv_nsec -= 1000000000L;
    pthread_mutex_timedlock(&locks[number], &end);
}

static void *hold_and_take_in_time(void *unused) {
    pthread_mutex_lock(&locks[1]);
    ready++;
    settle(2);
    take_in_time(0, 900);
    pthread_mutex_unlock(&locks[1]);
    return unused;
}

// No deadlock: the other thread stops waiting after 900 ms.
// stalls: take_second, call=futex, held=hold_and_take_in_time
CASE with_a_limit(void) {
    pthread_t thread;
    begin();
    alarm(0);
    pthread_mutex_lock(&locks[0]);
    pthread_create(&thread, NULL, hold_and_take_in_time, NULL);
    ready++;
    settle(2);
    take_second(1);
    pthread_mutex_unlock(&locks[0]);
    pthread_join(thread, NULL);
    poll(NULL, 0, 20);
}

static void *hold_for_long(void *unused) {
    pthread_mutex_lock(&locks[0]);
    ready++;
    usleep(900000);
    pthread_mutex_unlock(&locks[0]);
    return unused;
}

// stalls: take_second, call=futex, held=hold_for_long
CASE is_held_for_long(void) {
    pthread_t thread;
    begin();
    alarm(0);
    pthread_create(&thread, NULL, hold_for_long, NULL);
    settle(1);
    take_second(0);
    pthread_join(thread, NULL);
    poll(NULL, 0, 20);
}

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
// The words behind the condition variable hold a thread id, as the owner field of a lock does.
static struct {
    pthread_cond_t condition;
    int behind[4];
} looks_owned = {.condition = PTHREAD_COND_INITIALIZER};

static void *signal_late(void *unused) {
    usleep(900000);
    pthread_mutex_lock(&locks[0]);
    ready = 1;
    pthread_cond_broadcast(&looks_owned.condition);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&locks[0]);
    return unused;
}

STEP wait_for_condition(pthread_cond_t *which) {
    pthread_mutex_lock(&locks[0]);
    while (!ready) pthread_cond_wait(which, &locks[0]);
    pthread_mutex_unlock(&locks[0]);
}

STEP condition_comes(pthread_cond_t *which) {
    pthread_t thread;
    begin();
    alarm(0);
    for (int i = 0; i < 4; i++) looks_owned.behind[i] = (int)syscall(SYS_gettid);
    pthread_create(&thread, NULL, signal_late, NULL);
    wait_for_condition(which);
    pthread_join(thread, NULL);
    poll(NULL, 0, 20);
}

// stalls: wait_for_condition, call=futex
CASE waits_for_condition(void) { condition_comes(&condition); }

// stalls: wait_for_condition, call=futex
CASE looks_like_a_lock(void) { condition_comes(&looks_owned.condition); }

static pthread_barrier_t barrier;

static void *arrive_late(void *unused) {
    usleep(900000);
    pthread_barrier_wait(&barrier);
    return unused;
}

STEP wait_at_barrier(void) { pthread_barrier_wait(&barrier); }

// The barrier's counts of arrived threads and of rounds equal the id of the waiting thread, as a lock's owner would.
// stalls: wait_at_barrier, call=futex
CASE round_looks_like_a_thread(void) {
    pthread_t thread;
    unsigned arrived[2] = {(unsigned)syscall(SYS_gettid), (unsigned)syscall(SYS_gettid)};
    begin();
    alarm(0);
    pthread_barrier_init(&barrier, NULL, 2);
    memcpy(&barrier, arrived, sizeof arrived); // struct pthread_barrier of glibc: in, current_round, …
    pthread_create(&thread, NULL, arrive_late, NULL);
    wait_at_barrier();
    pthread_detach(thread); // may wait for ever: with an odd thread id no round ends at the second thread's arrival
    poll(NULL, 0, 20);
}

static void *write_for_long(void *unused) {
    write_shared(0);
    ready++;
    usleep(900000);
    pthread_rwlock_unlock(&shared[0]);
    return unused;
}

// stalls: read_shared, call=futex, held=write_for_long
CASE is_written_for_long(void) {
    pthread_t thread;
    begin();
    alarm(0);
    pthread_create(&thread, NULL, write_for_long, NULL);
    settle(1);
    read_shared(0);
    pthread_join(thread, NULL);
    poll(NULL, 0, 20);
}

static void *write_and_read_in_time(void *unused) {
    struct timespec end;
    write_shared(0);
    ready++;
    settle(2);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec++;
    pthread_rwlock_timedrdlock(&shared[1], &end);
    pthread_rwlock_unlock(&shared[0]);
    return unused;
}

// No deadlock: the other thread stops waiting after a second.
// stalls: read_shared, call=futex, held=write_and_read_in_time
CASE is_written_with_a_limit(void) {
    pthread_t thread;
    begin();
    alarm(0);
    pthread_create(&thread, NULL, write_and_read_in_time, NULL);
    write_shared(1);
    ready++;
    settle(2);
    read_shared(0);
    pthread_rwlock_unlock(&shared[1]);
    pthread_join(thread, NULL);
    poll(NULL, 0, 20);
}

static void *write_what_is_read(void *unused) {
    read_shared(1);
    ready++;
    settle(2);
    write_shared(0);
    return unused;
}

// These threads are deadlocked, but an rwlock does not record its readers: the finding is a stall.
// stalls: write_shared, call=futex, freeze
CASE who_reads_is_unknown(void) {
    pthread_t thread;
    begin();
    pthread_create(&thread, NULL, write_what_is_read, NULL);
    read_shared(0);
    ready++;
    settle(2);
    write_shared(1);
}

static void *hold_and_try(void *unused) {
    pthread_mutex_lock(&locks[1]);
    ready++;
    settle(2);
    for (int i = 0; i < 90 && pthread_mutex_trylock(&locks[0]); i++) usleep(10000);
    pthread_mutex_unlock(&locks[1]);
    return unused;
}

// stalls: take_second, call=futex, held=hold_and_try
CASE is_tried_only(void) {
    pthread_t thread;
    begin();
    alarm(0);
    pthread_mutex_lock(&locks[0]);
    pthread_create(&thread, NULL, hold_and_try, NULL);
    ready++;
    settle(2);
    take_second(1);
    pthread_mutex_unlock(&locks[0]);
    pthread_join(thread, NULL);
    poll(NULL, 0, 20);
}

// The program's own futex words, with the contents of glibc locks that the waiting thread holds.
static _Atomic unsigned own_mutex[5], own_rwlock[13], own_number;

static void *wake_late(void *word) {
    usleep(900000);
    *(_Atomic unsigned *)word = 0;
    syscall(SYS_futex, word, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0);
    return NULL;
}

STEP wait_on(_Atomic unsigned *word) {
    pthread_t thread;
    unsigned value = *word;
    begin();
    alarm(0);
    pthread_create(&thread, NULL, wake_late, word);
    while (*word == value) syscall(SYS_futex, word, 0 /* FUTEX_WAIT */, value, NULL, NULL, 0);
    pthread_join(thread, NULL);
    poll(NULL, 0, 20);
}

// stalls: wait_on, call=futex
CASE looks_like_own_mutex(void) {
    own_mutex[0] = 2;
    own_mutex[2] = (unsigned)syscall(SYS_gettid);
    own_mutex[3] = 1;
    wait_on(&own_mutex[0]);
}

// stalls: wait_on, call=futex
CASE looks_like_own_rwlock(void) {
    own_rwlock[0] = 3;
    own_rwlock[2] = 3;
    own_rwlock[6] = (unsigned)syscall(SYS_gettid);
    wait_on(&own_rwlock[2]);
}

// stalls: wait_on, call=futex
CASE looks_like_own_end(void) {
    own_number = (unsigned)syscall(SYS_gettid);
    wait_on(&own_number);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
#define CASES(X)                                                                                                       \
    X(own_lock)                                                                                                        \
    X(two_locks)                                                                                                       \
    X(three_locks)                                                                                                     \
    X(robust_locks)                                                                                                    \
    X(recursive_locks)                                                                                                 \
    X(joins_while_holding)                                                                                             \
    X(beside_a_circle)                                                                                                 \
    X(is_no_loop)                                                                                                      \
    X(in_profile_sample)                                                                                               \
    X(with_a_limit)                                                                                                    \
    X(is_held_for_long)                                                                                                \
    X(waits_for_condition)                                                                                             \
    X(looks_like_a_lock)                                                                                               \
    X(round_looks_like_a_thread)                                                                                       \
    X(reads_what_is_written)                                                                                           \
    X(both_are_written)                                                                                                \
    X(both_are_read)                                                                                                   \
    X(one_inherits_priority)                                                                                           \
    X(is_written_for_long)                                                                                             \
    X(is_written_with_a_limit)                                                                                         \
    X(who_reads_is_unknown)                                                                                            \
    X(is_tried_only)                                                                                                   \
    X(looks_like_own_mutex)                                                                                            \
    X(looks_like_own_rwlock)                                                                                           \
    X(looks_like_own_end)
#define X(name) {#name, name},
    CASES(X)
#undef X
};

int main(int number, char **words) {
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (number > 1 && !strcmp(cases[i].name, words[1])) return cases[i].run(), 0;
    return 3;
}
