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

#endif
