// Starts zguard under glibc 2.31 and newer: passes libc a function that calls zguard's constructors, and loads the
// libraries that were merged into libc.so.6 in 2.34. Runs before everything else in the process; no state.

#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "arch.h"

#define HIDDEN __attribute__((visibility("hidden")))

// Before 2.34, functions that zguard calls were in two more libraries. zguard does not require them, because newer
// systems may lack them: a root for one program often has only the loader and libc.so.6. An older loader learns of them
// only from the environment, so zguard executes itself once more with both in LD_PRELOAD.
#define OLDER_LIBRARIES "libpthread.so.0:libdl.so.2"
static const char preload[] = "LD_PRELOAD=" OLDER_LIBRARIES;

__asm__(".symver from_libdl,dlopen@GLIBC_" OLDEST "\n\t.weak from_libdl");
__asm__(".symver from_libpthread,pthread_create@GLIBC_" OLDEST "\n\t.weak from_libpthread");
extern void from_libdl(void) __attribute__((weak));
extern void from_libpthread(void) __attribute__((weak));

// Returns the LD_PRELOAD entry of the environment; NULL if there is none.
static char **find_preload(char **environment) {
    for (; *environment; environment++)
        if (strncmp(*environment, preload, sizeof "LD_PRELOAD=" - 1) == 0) return environment;
    return NULL;
}

// Removes the older libraries from LD_PRELOAD again, so that no program started by zguard inherits them.
static void remove_preload(char **environment) {
    char **place = find_preload(environment);
    if (!place || strncmp(*place, preload, sizeof preload - 1) != 0) return;
    char *rest = *place + sizeof preload - 1;
    if (*rest == ':') {
        memmove(*place + sizeof "LD_PRELOAD=" - 1, rest + 1, strlen(rest));
    } else if (!*rest) {
        do place[0] = place[1];
        while (*place++);
    }
}

static void say(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(127);
}

// Executes zguard again with the older libraries. Ends the process with status 127, as the loader does, if they cannot
// be loaded.
static void load_older_libraries(int count, char **arguments, char **environment) {
    char **place = find_preload(environment), **end = environment;
    while (*end) end++;
    size_t before = (size_t)(end - environment);
    if (!place || strncmp(*place, preload, sizeof preload - 1) != 0) {
        const char *others = place ? *place + sizeof "LD_PRELOAD=" - 1 : "";
        size_t bytes = sizeof preload + 1 + strlen(others);
        char *text = malloc(bytes), **changed = malloc((before + 2) * sizeof *changed);
        if (text && changed) {
            strcpy(text, preload);
            if (*others) strcat(strcat(text, ":"), others);
            memcpy(changed, environment, (before + 1) * sizeof *changed);
            size_t index = place ? (size_t)(place - environment) : before;
            if (!place) changed[before + 1] = NULL;
            changed[index] = text;
            const char *executed = (const char *)getauxval(AT_EXECFN);
            if (count > 0 && executed) execve(executed, arguments, changed);
            if (count > 0) execve("/proc/self/exe", arguments, changed);
        }
    }
    say("zguard: error: cannot load libpthread.so.0 and libdl.so.2, which belong to a C library older than 2.34\n");
    _exit(127);
}

// Before 2.34, a program's start-up code passed __libc_start_main a function that calls the program's constructors.
// Newer start-up code passes NULL, because newer libraries read the list of constructors themselves; they still call a
// function that is passed (csu/libc-start.c of glibc). So always pass one.
typedef void (*constructor)(int, char **, char **);
extern constructor preinit_start[] __asm__("__preinit_array_start") HIDDEN;
extern constructor preinit_end[] __asm__("__preinit_array_end") HIDDEN;
extern constructor init_start[] __asm__("__init_array_start") HIDDEN;
extern constructor init_end[] __asm__("__init_array_end") HIDDEN;
extern void _init(void) HIDDEN;

static void call_constructors(int count, char **arguments, char **environment) {
    for (constructor *each = preinit_start; each < preinit_end; each++) {
        (*each)(count, arguments, environment);
    }
    _init();
    for (constructor *each = init_start; each < init_end; each++) {
        (*each)(count, arguments, environment);
    }
}

int old_start_main(int (*)(int, char **, char **), int, char **, constructor, void (*)(void), void (*)(void),
                   void *) __asm__("zg_older___libc_start_main");
__asm__(".symver zg_older___libc_start_main,__libc_start_main@GLIBC_" OLDEST);

HIDDEN int start_main(int (*program)(int, char **, char **), int count, char **arguments, constructor none,
                      void (*no_end)(void), void (*loader_end)(void), void *stack_end) __asm__("__libc_start_main");

int start_main(int (*program)(int, char **, char **), int count, char **arguments, constructor none,
               void (*no_end)(void), void (*loader_end)(void), void *stack_end) {
    (void)none;
    char **environment = arguments + count + 1;
    if (!from_libdl || !from_libpthread) load_older_libraries(count, arguments, environment);
    remove_preload(environment);
    // Destructors need no help: in every version, the loader calls the program's destructors, as it calls those of
    // every library.
    return old_start_main(program, count, arguments, call_constructors, no_end, loader_end, stack_end);
}
