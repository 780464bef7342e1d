// Interposes longjmp and its variants: a jump out of a signal handler that interrupted the runtime is delayed until the
// interrupted call has returned, so that no lock stays taken.
// Any context. The functions get their symbol names by asm labels, since compilers and headers treat longjmp specially.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_no_jump_is_published; // ISO C forbids an empty translation unit
#else

#include "images/loader.h"
#include "entry/jump.h"
#include "threads/thread.h"

#ifdef ZG_STATIC // libc.a has no other name for __longjmp_chk
#define ZG_JUMPS(X) X(longjmp) X(_longjmp) X(siglongjmp)
#else
#define ZG_JUMPS(X) X(longjmp) X(_longjmp) X(siglongjmp) X(__longjmp_chk)
#endif

#define ZG_X(name) static zg_jump_function *next_##name;
ZG_JUMPS(ZG_X)
#undef ZG_X

// Looked up before main: dlsym takes the loader's lock, which a signal handler must not take.
__attribute__((constructor(101))) static void look_up(void) {
#define ZG_X(name) next_##name = (zg_jump_function *)zg_loader_next(#name);
    ZG_JUMPS(ZG_X)
#undef ZG_X
}

#define ZG_X(name)                                                                                                     \
    ZG_PUBLISH void zg_published_##name(void *environment, int value) __asm__(#name);                                  \
    ZG_PUBLISH void zg_published_##name(void *environment, int value) {                                                \
        if (ZG_UNLIKELY(!next_##name)) look_up();                                                                      \
        if (ZG_UNLIKELY(zg_thread_self &&                                                                              \
                        (zg_thread_self->in_runtime || zg_thread_self->moved.start || zg_thread_self->handled)))       \
            zg_jump_out(next_##name, environment, value, ZG_FRAME);                                                    \
        next_##name(environment, value);                                                                               \
        __builtin_trap();                                                                                              \
    }
ZG_JUMPS(ZG_X)
#undef ZG_X

#endif
