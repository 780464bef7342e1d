// Starts the test program again in another mode, under limits that hold before its first instruction.

#ifndef LIFE_H
#define LIFE_H

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../Support/work.h"
#include "check.h"

// Returns a field of /proc/self/status in bytes.
__attribute__((unused)) static size_t life_status(const char *name) {
    char line[256];
    size_t value = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            value = strtoul(line + strlen(name) + 1, NULL, 10) * 1024;
    if (file) fclose(file);
    return value;
}

// Returns the child's exit code, or 128 + signal if a signal ended it. A child that hangs is killed after nine minutes,
// a time that emulators may need; the result is then 255.
__attribute__((unused)) static int life_wait(pid_t child) {
    int status = 0;
    for (int i = 0; i < 540000; i++) {
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        usleep(1000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return 255;
}

// Runs this program with `mode` as its argument; returns life_wait's result. `before` runs in the child before exec.
__attribute__((unused)) static int life_run_self(const char *mode, void (*before)(void)) {
    pid_t child = fork();
    if (child == 0) {
        if (before) before();
        execl("/proc/self/exe", "self", mode, (char *)NULL);
        _exit(254);
    }
    return life_wait(child);
}

#endif
