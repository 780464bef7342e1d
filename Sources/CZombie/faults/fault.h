// Signal handler for faults: diagnoses, reports, and calls the program's handler. Signal context.

#ifndef ZG_FAULT_H
#define ZG_FAULT_H

#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

// Call around a fork: no fault is being diagnosed while the process is copied.
void zg_fault_fork_prepare(void);
void zg_fault_fork_done(bool child);
void zg_fault_handler(int signal, siginfo_t *info, void *context);
// Call when the program is about to exit with this status. If it exits in a handler for a fault, reports that fault.
// `frame`: frame address of the published function, or of the function that libc calls at exit. Any context.
void zg_fault_before_exit(const uint64_t *frame, int status);

#endif
