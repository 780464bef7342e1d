// Functions that all scenarios share. A program of this directory is called with the name of a scenario and a mode:
//   plain      without the library: the scenario runs and ends with 0
//   dies       guarded: at its end the process dies of a planted use-after-free
//   goes-on    guarded with on_finding=continue: the process continues after a planted double free
//   quiet      guarded: nothing is planted
// The output must be the same in all modes. `--list` prints the scenarios, one a line (Tests/Robustness/life.py).

#ifndef SCENARIO_H
#define SCENARIO_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../Support/work.h"

struct scenario {
    const char *name;
    void (*run)(void);
    const char *traits; // key=value pairs for the driver, separated by blanks
};
extern const struct scenario scenarios[]; // ends with an entry without a name

static enum { plain, dies, goes_on, quiet } mode;
static const char *mode_word = "plain";

#define NOINLINE __attribute__((noinline))
#define UNUSED __attribute__((unused))

// Writes a line with one system call, bypassing stdio: children and signal handlers print too.
UNUSED __attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(text, sizeof text - 1, format, arguments);
    va_end(arguments);
    if (count < 0 || count > (int)sizeof text - 2) count = sizeof text - 2;
    text[count++] = '\n';
    if (write(1, text, (size_t)count) != count) _exit(90);
}

static void say_failure(const char *what, int line) { say("FAILED (line %d): %s", line, what); }
#define MUST(condition, what) ((condition) ? (void)0 : say_failure(what, __LINE__))

// --- the planted bug -------------------------------------------------------------------------------------------------

// The names of these functions must be on the finding's three stacks.
UNUSED static NOINLINE void **plant_allocate(void) {
    void **block = malloc(96);
    block[2] = block;
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}
UNUSED static NOINLINE void plant_free(void **block) {
    free(block);
    __asm__ volatile("" ::: "memory");
}
UNUSED static NOINLINE char plant_touch(void *volatile *block) {
    char value = *(volatile char *)block[2];
    __asm__ volatile("" ::: "memory");
    return value;
}
UNUSED static NOINLINE void plant_free_again(void **block) {
    free(block);
    __asm__ volatile("" ::: "memory");
}

UNUSED static NOINLINE void plant(void) {
    if (mode == plain || mode == quiet) return;
    void **block = plant_allocate();
    plant_free(block);
    if (mode == goes_on) {
        plant_free_again(block);
    } else {
        plant_touch(block);
        say("the planted bug went unnoticed");
    }
    __asm__ volatile("" ::: "memory");
}

// --- children --------------------------------------------------------------------------------------------------------

// Returns the child's wait status; -1 if waitpid fails, or if the child runs for more than 20 s and is killed.
UNUSED static int status_of(pid_t child) {
    int status = 0;
    for (int i = 0; i < 20000; i++) {
        pid_t ended = waitpid(child, &status, WNOHANG | __WALL);
        if (ended == child) return status;
        if (ended < 0 && errno != EINTR) return -1;
        usleep(i < 100 ? 200 : 1000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, __WALL);
    say("a child hangs");
    return -1;
}

// Returns whether the child ended as its mode requires: by the planted bug's SIGSEGV (dies), otherwise with 0.
UNUSED static int planted_well(int status) {
    if (mode == dies) return status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
    return status == 0;
}

UNUSED static void run_self(const char *scenario) {
    char *arguments[] = {"self", (char *)scenario, (char *)mode_word, NULL};
    extern char **environ;
    execve("/proc/self/exe", arguments, environ);
    _exit(91);
}

// --- work ------------------------------------------------------------------------------------------------------------

UNUSED static int all_over;
UNUSED static void *churn(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&all_over, __ATOMIC_RELAXED))
        if (work_with_blocks(200)) say("FAILED: a block has changed");
    return NULL;
}

// --- main ------------------------------------------------------------------------------------------------------------

int main(int count, char **words) {
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        for (const struct scenario *s = scenarios; s->name; s++) printf("%s %s\n", s->name, s->traits);
        return 0;
    }
    if (count < 3) return 92;
    mode_word = words[2];
    mode = strcmp(mode_word, "dies") == 0      ? dies
           : strcmp(mode_word, "goes-on") == 0 ? goes_on
           : strcmp(mode_word, "quiet") == 0   ? quiet
                                               : plain;
    for (const struct scenario *s = scenarios; s->name; s++) {
        if (strcmp(s->name, words[1]) != 0) continue;
        s->run();
        say("at the end");
        plant();
        return 0;
    }
    return 93;
}

#endif
