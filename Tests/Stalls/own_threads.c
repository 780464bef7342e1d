// Samples the stacks of its own threads (Sources/CUnwind/own.c) while they sleep, read, wait for locks, compute and
// get signals. No system call may return early, no signal may be lost, and no child process may be left. Prints
// "looked at N of N".

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "zg_unwind_threads.h"

enum { SLEEPER, READER, LOCKER, COMPUTER, WAITER, HANDLER, THREADS, SIGNALS = 500 };

static atomic_int ids[THREADS], early, received, children, is_over;
static int pipes[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void count_signal(int number) { atomic_fetch_add(number == SIGCHLD ? &children : &received, 1); }

static void *sleeper(void *unused) {
    for (ids[SLEEPER] = gettid(); !is_over;) {
        struct timespec before, after, step = {.tv_nsec = 3000000};
        clock_gettime(CLOCK_MONOTONIC, &before);
        if (nanosleep(&step, NULL) != 0) early++;
        clock_gettime(CLOCK_MONOTONIC, &after);
        if ((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec < step.tv_nsec) early++;
    }
    return unused;
}

static void *reader(void *unused) {
    char byte;
    ids[READER] = gettid();
    while (read(pipes[0], &byte, 1) == 1) {
    }
    if (!is_over) early++;
    return unused;
}

static void *locker(void *unused) {
    for (ids[LOCKER] = gettid(); !is_over;) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *computer(void *unused) {
    volatile unsigned long steps = 0;
    for (ids[COMPUTER] = gettid(); !is_over;) steps++;
    return unused;
}

// Every stop of the thread ends epoll_wait with EINTR. The sampler makes the kernel restart the call, except on arm64.
static void *waiter(void *unused) {
    struct epoll_event event;
    int files = epoll_create1(0);
    for (ids[WAITER] = gettid(); !is_over;)
        if (epoll_wait(files, &event, 1, 2) < 0 && zg_thread_restart_call((int64_t[64]){[10] = -EINTR}, 512)) early++;
    close(files);
    return unused;
}

static void *handler(void *unused) {
    ids[HANDLER] = gettid();
    while (!is_over) usleep(1000);
    return unused;
}

static uint64_t keep_registers(const uint64_t *registers, uint64_t pc, uint64_t *frames, uint64_t most) {
    frames[0] = pc;
    if (most > 1) frames[1] = registers[ZG_THREAD_SP];
    return pc ? 2 : 0;
}

int main(int count, char **words) {
    int looks = count > 1 ? atoi(words[1]) : 1000, seen = 0;
    void *(*const bodies[THREADS])(void *) = {sleeper, reader, locker, computer, waiter, handler};
    pthread_t threads[THREADS];
    signal(SIGUSR1, count_signal);
    signal(SIGCHLD, count_signal);
    if (pipe(pipes) != 0) return 2;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, bodies[i], NULL);
    for (int i = 0; i < THREADS; i++)
        while (!ids[i]) usleep(100);
    int sent = 0;
    for (int i = 0; i < looks; i++) {
        uint64_t frames[2];
        int which = i % THREADS;
        if (i % 10 == 0) pthread_mutex_lock(&lock);
        // Send the signal to the thread that will be sampled next, so that the signal may arrive while the thread is
        // stopped.
        if (which == HANDLER && sent < SIGNALS && sent == received &&
            syscall(SYS_tgkill, getpid(), ids[which], SIGUSR1) == 0)
            sent++;
        int result = zg_thread_stack(ids[which], 1000000, keep_registers, frames, 2);
        if (result == 2) seen++;
        else fprintf(stderr, "thread %d: %s\n", which, strerror(-result));
        if (i % 10 == 9) pthread_mutex_unlock(&lock);
    }
    for (int i = 0; i < 1000 && received != sent; i++) usleep(1000);
    is_over = 1;
    close(pipes[1]);
    pthread_mutex_trylock(&lock);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    int left = waitpid(-1, NULL, __WALL | WNOHANG);
    printf("looked at %d of %d\n", seen, looks);
    if (early || received != sent || children || left != -1 || errno != ECHILD) {
        printf("%d came back early, %d of %d signals, %d SIGCHLD, process %d is left\n", early, received, sent,
               children, left);
        return 1;
    }
    return seen == looks ? 0 : 1;
}
