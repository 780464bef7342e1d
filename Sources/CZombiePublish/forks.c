// Interposes _Fork and clone, which create processes without running fork handlers. Any context.
// A clone that shares memory is a tail call of libc's function, which leaves no frame of the runtime on the stack.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_no_fork_is_published; // ISO C forbids an empty translation unit
#else

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>

#include "entry/forks.h"
#include "images/loader.h"
#include "platform/arch.h"
#include "process/runtime.h"

typedef int entry_function(void *argument);
// Declares only arguments passed in registers, like syscall_function (filters.c). The seventh, child_tid, is passed on
// the caller's stack on x86-64.
typedef int clone_function(entry_function *entry, void *stack, int flags, void *argument, void *parent_tid,
                           void *tls ZG_STACK_ARGUMENT(void *child_tid));
typedef int clone_in_full(entry_function *entry, void *stack, int flags, void *argument, void *parent_tid, void *tls,
                          void *child_tid);
typedef int fork_function(void);

static clone_function *next_clone;
static clone_in_full *next_in_full;
static fork_function *next_fork; // glibc has _Fork since 2.34

__attribute__((constructor(101))) static void look_up(void) {
    next_clone = (clone_function *)zg_loader_next("clone");
    next_in_full = (clone_in_full *)zg_loader_next("clone");
    next_fork = (fork_function *)zg_loader_next("_Fork");
}

struct start {
    entry_function *entry;
    void *argument;
};

// Runs in the child. `argument` points into its copy of the parent's stack.
static int enter(void *argument) {
    const struct start *start = argument;
    zg_runtime_after_bare_fork(true);
    return start->entry(start->argument);
}

static ZG_NOINLINE int clone_process(struct start start, void *stack, int flags, void *parent_tid, void *tls,
                                     void *child_tid) {
    zg_runtime_before_bare_fork();
    int pid = next_in_full(enter, stack, flags, &start, parent_tid, tls, child_tid);
    int error = errno;
    zg_runtime_after_bare_fork(false);
    errno = error;
    return pid;
}

static ZG_NOINLINE int clone_without_shared_memory(entry_function *entry, void *stack, int flags, void *argument,
                                                   void *parent_tid, void *tls, const uint64_t *child_tid) {
    bool has_child_tid = flags & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID);
    return clone_process((struct start){entry, argument}, stack, flags, parent_tid, tls,
                         has_child_tid ? (void *)*child_tid : NULL);
}

ZG_PUBLISH int zg_published_clone(entry_function *entry, void *stack, int flags, void *argument, void *parent_tid,
                                  void *tls ZG_STACK_ARGUMENT(void *child_tid)) __asm__("clone");
ZG_PUBLISH int zg_published_clone(entry_function *entry, void *stack, int flags, void *argument, void *parent_tid,
                                  void *tls ZG_STACK_ARGUMENT(void *child_tid)) {
    if (ZG_UNLIKELY(!next_clone)) look_up();
    if (ZG_UNLIKELY(zg_forks_by_flags((uint64_t)flags)) && entry && stack)
        return clone_without_shared_memory(entry, stack, flags, argument, parent_tid, tls,
                                           ZG_STACK_ARGUMENT_ADDRESS(child_tid));
    ZG_MUST_TAIL return next_clone(entry, stack, flags, argument, parent_tid, tls ZG_STACK_ARGUMENT(child_tid));
}

#ifndef ZG_STATIC // libc's fork calls _Fork, and libc.a has no other name for it
ZG_PUBLISH int zg_published_Fork(void) __asm__("_Fork");
ZG_PUBLISH int zg_published_Fork(void) {
    if (ZG_UNLIKELY(!next_fork)) look_up();
    if (!next_fork) return errno = ENOSYS, -1;
    zg_runtime_before_bare_fork();
    int pid = next_fork();
    int error = errno;
    zg_runtime_after_bare_fork(pid == 0);
    errno = error;
    return pid;
}
#endif

#endif
