// Starts threads of the ZombieGuard library in the program's process.

#include "zg_system.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct start {
    void (*body)(void *);
    void *argument;
    char name[16]; // longest thread name of the kernel, with its NUL
};

static void *run(void *argument) {
    struct start start = *(struct start *)argument;
    free(argument);
    pthread_setname_np(pthread_self(), start.name);
    start.body(start.argument);
    return NULL;
}

int zg_system_start_thread(const char *name, void (*body)(void *), void *argument) {
    struct start *start = malloc(sizeof *start);
    if (!start) return -ENOMEM;
    *start = (struct start){.body = body, .argument = argument};
    strncpy(start->name, name, sizeof start->name - 1);
    // Block the program's signals, because the program chose the threads that handle them. Faults stay unblocked.
    sigset_t all, old;
    sigfillset(&all);
    const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, run, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    if (error) free(start);
    return -error;
}

int zg_system_thread_id(void) { return gettid(); }
