// Starting the test program again in another mode, under conditions that have to hold before its first instruction.

#ifndef LIFE_H
#define LIFE_H

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

// Exit code of a child, 128 + signal where it died of one, 255 where it hung for 90 s and was ended.
__attribute__((unused)) static int life_wait(pid_t child) {
    int status = 0;
    for (int i = 0; i < 90000; i++) {
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        usleep(1000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return 255;
}

// Runs the program with this mode as its argument; `before` runs in the child before the exec.
__attribute__((unused)) static int life_run_self(const char *mode, void (*before)(void)) {
    pid_t child = fork();
    if (child == 0) {
        if (before) before();
        execl("/proc/self/exe", "self", mode, (char *)NULL);
        _exit(254);
    }
    return life_wait(child);
}

// A piece of work whose result is known: blocks of mixed sizes, filled and checked. 0 where all is as it should be.
__attribute__((unused)) static int life_work(int rounds) {
    enum { HELD = 64 };
    unsigned char *held[HELD] = {0};
    size_t sizes[HELD] = {0};
    uint64_t state = 88172645463325252u;
    int wrong = 0;
    for (int i = 0; i < rounds; i++) {
        uint64_t r = check_random(&state);
        unsigned at = r % HELD;
        if (held[at]) {
            for (size_t j = 0; j < sizes[at]; j += 97) wrong += held[at][j] != (unsigned char)at;
            free(held[at]);
        }
        sizes[at] = (r >> 8) % 100 == 0 ? (r >> 20) % 300000 : (r >> 20) % 3000;
        held[at] = r >> 63 ? calloc(1, sizes[at]) : malloc(sizes[at]);
        if (!held[at]) return 100;
        memset(held[at], (int)at, sizes[at]);
        if ((r >> 40) % 5 == 0) {
            sizes[at] = (r >> 30) % 5000;
            held[at] = realloc(held[at], sizes[at] ? sizes[at] : 1);
            memset(held[at], (int)at, sizes[at]);
        }
    }
    for (int i = 0; i < HELD; i++) free(held[i]);
    return wrong != 0;
}

#endif
