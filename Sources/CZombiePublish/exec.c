// Interposes exec and posix_spawn: a program that cannot load the preload library gets an environment without it.
// Any context, also children of vfork and signal handlers, so nothing is allocated: the changed environment is built on
// the stack, like the argument vectors of libc's execl, or in a mapping if it exceeds STACK_MOST bytes. `environ`,
// results and errno are those of libc.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_no_exec_is_published; // ISO C forbids an empty translation unit
#else

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "entry/children.h"
#include "faults/signals.h"
#include "images/loader.h"
#include "platform/arch.h"
#include "platform/os.h"

enum { STACK_MOST = 8192 };

// For functions that make more than one system call, libc's function is called. The other functions make their system
// call directly, because each dlsym costs 1000 instructions at start-up.
#define ZG_EXECS(X)                                                                                                    \
    X(execvpe, (const char *, char *const *, char *const *))                                                           \
    X(posix_spawn, (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,              \
                    char *const *, char *const *))                                                                     \
    X(posix_spawnp, (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,             \
                     char *const *, char *const *))

#define ZG_X(name, parameters) static int(*next_##name) parameters;
ZG_EXECS(ZG_X)
#undef ZG_X

// Looked up before main: dlsym takes the loader's lock.
__attribute__((constructor(101))) static void look_up(void) {
#define ZG_X(name, parameters) next_##name = (int(*) parameters)zg_loader_next(#name);
    ZG_EXECS(ZG_X)
#undef ZG_X
}

// The arguments of an exec or spawn call, without the environment.
struct start {
    enum { by_execve, by_execvpe, by_execveat, by_spawn, by_spawnp } way;
    int file, flags;
    const char *path;
    char *const *arguments;
    pid_t *pid;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
};

static int failed(long result) {
    errno = (int)-result;
    return -1;
}

static int go(const struct start *start, char *const *environment) {
    if (ZG_UNLIKELY(!next_execvpe)) look_up();
    long arguments = (long)start->arguments, path = (long)start->path;
    switch (start->way) {
    case by_execve: return failed(zg_arch_syscall(SYS_execve, path, arguments, (long)environment, 0, 0, 0));
    case by_execvpe: return next_execvpe(start->path, start->arguments, environment);
    case by_execveat:
        return failed(zg_arch_syscall(SYS_execveat, start->file, path, arguments, (long)environment, start->flags, 0));
    case by_spawn:
        return next_posix_spawn(start->pid, start->path, start->actions, start->attributes, start->arguments,
                                environment);
    default:
        return next_posix_spawnp(start->pid, start->path, start->actions, start->attributes, start->arguments,
                                 environment);
    }
}

static ZG_NOINLINE int call_with_stack_environment(const struct start *start, char *const *environment,
                                                   enum zg_children_change change, struct zg_children_room room) {
    char *words[room.words], bytes[room.bytes + 1];
    zg_children_write(environment, change, words, bytes);
    return go(start, words);
}

static ZG_COLD int call_with_changed_environment(const struct start *start, char *const *environment,
                                                 enum zg_children_change change) {
    struct zg_children_room room = zg_children_room(environment);
    uint64_t needed = room.words * sizeof(char *) + room.bytes;
    if (needed <= STACK_MOST) return call_with_stack_environment(start, environment, change, room);
    char **words = zg_os_map(zg_round_up(needed, ZG_PAGE_BYTES));
    if (!words) return go(start, environment);
    zg_children_write(environment, change, words, (char *)(words + room.words));
    int result = go(start, words);
    int saved = errno;
    zg_os_release(words, zg_round_up(needed, ZG_PAGE_BYTES));
    errno = saved;
    return result;
}

static int exec_or_spawn(const struct start *start, char *const *environment) {
    bool searches = start->way == by_execvpe || start->way == by_spawnp;
    if (start->way != by_spawn && start->way != by_spawnp) zg_signals_before_exec();
    enum zg_children_change change = searches ? zg_children_look_for(start->path, environment)
                                              : zg_children_look(start->file, start->path, environment);
    return change == zg_children_as_it_is ? go(start, environment)
                                          : call_with_changed_environment(start, environment, change);
}

ZG_PUBLISH int execve(const char *path, char *const arguments[], char *const environment[]) {
    struct start start = {by_execve, .file = AT_FDCWD, .path = path, .arguments = arguments};
    return exec_or_spawn(&start, environment);
}

ZG_PUBLISH int execv(const char *path, char *const arguments[]) { return execve(path, arguments, environ); }

ZG_PUBLISH int execvpe(const char *name, char *const arguments[], char *const environment[]) {
    struct start start = {by_execvpe, .path = name, .arguments = arguments};
    return exec_or_spawn(&start, environment);
}

ZG_PUBLISH int execvp(const char *name, char *const arguments[]) { return execvpe(name, arguments, environ); }

// As in glibc, without its fallback to /proc for kernels before 3.19, which lack execveat: the runtime needs a later
// kernel.
ZG_PUBLISH int fexecve(int file, char *const arguments[], char *const environment[]) {
    if (file < 0 || !environment) {
        errno = EINVAL;
        return -1;
    }
    struct start start = {by_execveat, .file = file, .flags = AT_EMPTY_PATH, .path = "", .arguments = arguments};
    return exec_or_spawn(&start, environment);
}

ZG_PUBLISH int execveat(int directory, const char *path, char *const arguments[], char *const environment[],
                        int flags); // declared since glibc 2.34
ZG_PUBLISH int execveat(int directory, const char *path, char *const arguments[], char *const environment[],
                        int flags) {
    struct start start = {by_execveat, .file = directory, .flags = flags, .path = path, .arguments = arguments};
    return exec_or_spawn(&start, environment);
}

ZG_PUBLISH int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    struct start start = {by_spawn,           .file = AT_FDCWD,        .path = path, .arguments = arguments, .pid = pid,
                          .actions = actions, .attributes = attributes};
    return exec_or_spawn(&start, environment);
}

ZG_PUBLISH int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    struct start start = {by_spawnp,  .path = name,       .arguments = arguments,
                          .pid = pid, .actions = actions, .attributes = attributes};
    return exec_or_spawn(&start, environment);
}

// execl, execlp and execle copy their arguments to a vector on the stack, as in libc.
static uint64_t count_arguments(va_list arguments) {
    uint64_t count = 1; // counts `first`, a named parameter
    while (va_arg(arguments, const char *)) count++;
    return count;
}

#define ZG_EXECL(name, after, call)                                                                                    \
    ZG_PUBLISH int name(const char *path, const char *first, ...) {                                                    \
        va_list list;                                                                                                  \
        va_start(list, first);                                                                                         \
        uint64_t count = first ? count_arguments(list) : 0;                                                            \
        va_end(list);                                                                                                  \
        const char *words[count + 1];                                                                                  \
        words[0] = first;                                                                                              \
        va_start(list, first);                                                                                         \
        for (uint64_t i = 1; i <= count; i++) words[i] = va_arg(list, const char *);                                   \
        char *const *arguments = (char *const *)words;                                                                 \
        after;                                                                                                         \
        va_end(list);                                                                                                  \
        return call;                                                                                                   \
    }

ZG_EXECL(execl, , execve(path, arguments, environ))
ZG_EXECL(execlp, , execvpe(path, arguments, environ))
ZG_EXECL(execle, char *const *environment = va_arg(list, char *const *), execve(path, arguments, environment))

#endif
