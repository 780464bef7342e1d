// Defines functions that the runtime needs and musl lacks.
// Cold; takes no lock.

#define _GNU_SOURCE
#include <features.h>
#include <stdlib.h>

#include "publish.h"

#ifdef __GLIBC__
typedef int zg_musl_is_not_here; // ISO C forbids an empty translation unit
#else

// on_exit registers an exit handler that gets the exit status. Only the runtime's handler is supported.
static void (*at_exit)(int status, void *argument);
static void *argument_at_exit;
static int status_of_exit;

static void run_at_exit(void) { at_exit(status_of_exit, argument_at_exit); }

int on_exit(void (*function)(int status, void *argument), void *argument) {
    if (at_exit) return -1;
    at_exit = function;
    argument_at_exit = argument;
    return atexit(run_at_exit);
}

// Also called when main returns.
ZG_PUBLISH _Noreturn void exit(int status) {
    extern _Noreturn void zg_musl_exit(int status); // musl's exit
    status_of_exit = status;
    zg_musl_exit(status);
}

#endif
