// The handler for faults: diagnoses, reports, and hands on to the program. Signal context.

#ifndef ZG_FAULT_H
#define ZG_FAULT_H

#define _GNU_SOURCE
#include <signal.h>

void zg_fault_handler(int signal, siginfo_t *info, void *context);

#endif
