// The handler for faults: diagnoses, reports, and hands on to the program. Signal context.

#ifndef ZG_FAULT_H
#define ZG_FAULT_H

#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

// No fault of another thread is being worked on while the process is copied.
void zg_fault_fork_prepare(void);
void zg_fault_fork_done(bool child);
void zg_fault_handler(int signal, siginfo_t *info, void *context);
// The program is about to exit with this status: where it does so in a handler for a fault, that is reported. `frame` is that of a published
// function, or of one that libc calls at the end. Any context.
void zg_fault_before_exit(const uint64_t *frame, int status);

#endif
