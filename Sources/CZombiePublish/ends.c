// Publishes the functions that end the process without what atexit has: a handler for a fault that calls one ends the program by that fault.
// Any context: children of vfork, signal handlers. Where there is no such handler nothing but the system call is made.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_no_end_is_published; // C wants a declaration in every file
#else

#include <sys/syscall.h>

#include "faults/fault.h"
#include "images/loader.h"

// Without <stdlib.h> and <unistd.h>, which give them attributes of their own.
static void (*next_quick_exit)(int status);

// Before any handler could need it: dlsym takes the loader's lock.
__attribute__((constructor(101))) static void look_up(void) {
    next_quick_exit = (void (*)(int))zg_loader_next("quick_exit");
}

ZG_PUBLISH __attribute__((noreturn)) void _exit(int status);
ZG_PUBLISH void _exit(int status) {
    zg_fault_before_exit(ZG_FRAME, status);
    for (;;) zg_arch_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

ZG_PUBLISH __attribute__((noreturn)) void _Exit(int status);
ZG_PUBLISH void _Exit(int status) {
    zg_fault_before_exit(ZG_FRAME, status);
    for (;;) zg_arch_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

ZG_PUBLISH __attribute__((noreturn)) void quick_exit(int status);
ZG_PUBLISH void quick_exit(int status) {
    zg_fault_before_exit(ZG_FRAME, status);
    if (!next_quick_exit) look_up();
    next_quick_exit(status);
    __builtin_trap();
}

#endif
