// Finds functions and addresses for which musl has no symbol or variable. Any context; no lock.

#define _GNU_SOURCE
#include "platform/libc.h"

#include <sys/auxv.h>
#include <unistd.h>

#ifndef __GLIBC__
extern void __assert_fail(const char *, const char *, int, const char *) __attribute__((weak));
extern void zg_musl_exit(int) __attribute__((weak));

uint64_t zg_libc_function_without_return(uint64_t pc) {
    enum { LONGEST = 256 };
    const uint64_t starts[] = {(uint64_t)abort, (uint64_t)__assert_fail, (uint64_t)zg_musl_exit};
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(starts); i++)
        if (starts[i] && pc >= starts[i] && pc - starts[i] < LONGEST) return starts[i];
    return 0;
}

uint64_t *zg_libc_stack_end(void) {
    static uint64_t *end;
    uint64_t *found = __atomic_load_n(&end, __ATOMIC_RELAXED);
    if (found || !environ) return found;
    // The stack holds argc, that many arguments, NULL, the environment, and above these the program's name. If
    // `environ` is not in this range, the program has replaced the environment.
    uint64_t count = 0, least = (uint64_t)__builtin_frame_address(0), name = getauxval(AT_EXECFN);
    if ((uint64_t)environ <= least || (uint64_t)environ >= name) return NULL;
    for (found = (uint64_t *)environ - 2; (uint64_t)found > least && *found != count; found--) count++;
    if ((uint64_t)found <= least) return NULL;
    __atomic_store_n(&end, found, __ATOMIC_RELAXED);
    return found;
}
#endif
