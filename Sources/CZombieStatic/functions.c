// Table of libc's functions for the runtime in a static executable, where no loader can look them up. glibc's libc.a
// has a second name for most functions that the runtime publishes. musl has fewer second names; scripts/build adds
// copies of the other functions to the archive, with names that begin with zg_musl_. Also defines the note that marks
// the executable.
// Cold; takes no lock.

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>

#include "images/loader.h"
#include "include/zg_program.h"
#include "include/zg_stats_page.h"
#include "publish.h"
#include "static.h"

// clang-format off
// Columns of the table below: function, its second name in libc.
#ifdef __GLIBC__
#define ZG_LIBC_NAMES(X)                                                                                               \
    X(sigaction, __libc_sigaction) X(pthread_create, __pthread_create_2_1)                                             \
    X(__register_atfork, __register_atfork) X(read, __read) X(write, __write) X(pread, __pread64)                      \
    X(pread64, __pread64) X(pwrite, __pwrite64) X(pwrite64, __pwrite64) X(readv, __readv) X(writev, __writev)          \
    X(send, __send) X(recv, __libc_recv) X(sendto, __libc_sendto) X(recvfrom, __libc_recvfrom)                         \
    X(sendmsg, __libc_sendmsg) X(recvmsg, __libc_recvmsg) X(poll, __poll) X(select, __select)                          \
    X(pselect, __pselect) X(madvise, __madvise) X(execvpe, __execvpe) X(posix_spawn, __posix_spawn)                    \
    X(posix_spawnp, __posix_spawnp) X(clone, __clone) X(quick_exit, __new_quick_exit) X(setuid, __setuid)              \
    X(setreuid, __setreuid) X(setresuid, __setresuid) X(longjmp, __libc_longjmp) X(_longjmp, __libc_longjmp)           \
    X(siglongjmp, __libc_siglongjmp) X(abort, abort)                                                                   \
    /* not published, but linked only if they are named here */                                                        \
    X(pthread_key_create, pthread_key_create) X(pthread_setspecific, pthread_setspecific)                              \
    X(pthread_attr_setstacksize, pthread_attr_setstacksize)
#else
// Functions that scripts/build copies from musl. scripts/build reads this list.
#define ZG_MUSL_COPIES(X)                                                                                              \
    X(read) X(write) X(pread) X(pwrite) X(readv) X(writev) X(preadv) X(pwritev) X(send) X(recv) X(sendto) X(recvfrom)  \
    X(sendmsg) X(recvmsg) X(poll) X(select) X(pselect) X(posix_spawn) X(posix_spawnp) X(clone) X(quick_exit) X(setuid) \
    X(setreuid) X(setresuid) X(longjmp) X(_longjmp) X(siglongjmp) X(pthread_atfork) X(exit)   \
    X(execvp) X(execvpe)
#define ZG_MUSL_COPY(name) ZG_X(name, zg_musl_##name)
#define ZG_LIBC_NAMES(X)                                                                                               \
    ZG_MUSL_COPIES(ZG_MUSL_COPY) X(sigaction, __libc_sigaction) X(pthread_create, __pthread_create)                    \
    X(__register_atfork, zg_musl_pthread_atfork) X(madvise, __madvise) X(abort, abort)           \
    X(pthread_key_create, pthread_key_create) X(pthread_setspecific, pthread_setspecific)                              \
    X(pthread_attr_setstacksize, pthread_attr_setstacksize)
#endif
// clang-format on

#define ZG_X(name, libcs) extern char zg_libcs_##name[] __asm__(#libcs);
ZG_LIBC_NAMES(ZG_X)
#undef ZG_X

// The C++ library's operators, each with the function that it calls: an operator that the program defines also takes
// effect in the operators that call it. Arguments that the called function does not have are ignored.
// clang-format off
#define ZG_OPERATORS(X)                                                                                                \
    X(_Znwm, zg_static_new) X(_Znam, _Znwm) X(_ZnwmRKSt9nothrow_t, zg_static_new_nothrow)                              \
    X(_ZnamRKSt9nothrow_t, _ZnwmRKSt9nothrow_t) X(_ZnwmSt11align_val_t, zg_static_new_aligned)                         \
    X(_ZnamSt11align_val_t, _ZnwmSt11align_val_t)                                                                      \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t, zg_static_new_aligned_nothrow)                                               \
    X(_ZnamSt11align_val_tRKSt9nothrow_t, _ZnwmSt11align_val_tRKSt9nothrow_t) X(_ZdlPv, free) X(_ZdaPv, _ZdlPv)        \
    X(_ZdlPvRKSt9nothrow_t, _ZdlPv) X(_ZdaPvRKSt9nothrow_t, _ZdaPv) X(_ZdlPvm, _ZdlPv) X(_ZdaPvm, _ZdaPv)              \
    X(_ZdlPvSt11align_val_t, free) X(_ZdaPvSt11align_val_t, _ZdlPvSt11align_val_t)                                     \
    X(_ZdlPvmSt11align_val_t, _ZdlPvSt11align_val_t) X(_ZdaPvmSt11align_val_t, _ZdaPvSt11align_val_t)                  \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t, _ZdlPvSt11align_val_t)                                                      \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t, _ZdaPvSt11align_val_t)
// clang-format on

#define ZG_X(operator, calls) extern void operator(void);
ZG_OPERATORS(ZG_X)
#undef ZG_X

bool zg_static_operators_are_own(void) {
    static void (*const operators[])(void) = {
#define ZG_X(operator, calls) operator,
        ZG_OPERATORS(ZG_X)
#undef ZG_X
    };
    for (size_t i = 0; i < ZG_ARRAY_COUNT(operators); i++)
        if (!zg_loader_is_own((const void *)operators[i])) return false;
    return true;
}

// Replacements for libc functions that have no second name.
static int lock_all(int flags) { return (int)ZG_RAW_SYSCALL(SYS_mlockall, flags, 0, 0, 0, 0, 0); }
static int unlock_all(void) { return (int)ZG_RAW_SYSCALL(SYS_munlockall, 0, 0, 0, 0, 0, 0); }
static long system_call(long number, long a, long b, long c, long d, long e, long f) {
    return zg_raw_syscall(number, a, b, c, d, e, f);
}

const struct zg_static_function zg_static_functions[] = {
#define ZG_X(name, libcs) {#name, zg_libcs_##name},
    ZG_LIBC_NAMES(ZG_X)
#undef ZG_X
        {"mlockall", (void *)lock_all},
    {"munlockall", (void *)unlock_all},
    {"syscall", (void *)system_call},
    {"malloc", (void *)zg_static_malloc},
    {"calloc", (void *)zg_static_calloc},
    {"realloc", (void *)zg_static_realloc},
    {"memalign", (void *)zg_static_memalign},
    {"free", (void *)zg_static_free},
    {"malloc_usable_size", (void *)zg_static_usable_size},
#define ZG_X(operator, calls) {#operator, (void *)(calls)},
    ZG_OPERATORS(ZG_X)
#undef ZG_X
        {NULL, NULL},
};

// The compiler gives a section whose name begins with .note the type of notes (SHT_NOTE).
__attribute__((section(".note.zguard"), used, aligned(4))) static const struct {
    uint32_t owner_bytes, bytes, type;
    char owner[8];
    uint32_t version;
} note = {sizeof ZG_STATIC_NOTE_OWNER, sizeof(uint32_t), ZG_STATIC_NOTE_TYPE, ZG_STATIC_NOTE_OWNER, ZG_STATS_VERSION};
