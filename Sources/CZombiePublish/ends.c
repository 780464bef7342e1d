// Interposes _exit, _Exit and quick_exit, which skip atexit handlers: if a fault handler of the program calls one of
// them, the runtime reports the fault first. Any context, also children of vfork and signal handlers. Outside a fault
// handler, _exit and _Exit are plain system calls.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_no_end_is_published; // ISO C forbids an empty translation unit
#else

#include <sys/syscall.h>

#include "faults/fault.h"
#include "images/loader.h"

// <stdlib.h> and <unistd.h> are not included: they declare these functions with other attributes.
static void (*next_quick_exit)(int status);

// Looked up before main: dlsym takes the loader's lock, which a signal handler must not take.
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
