// Measures the start of a program: spawn COUNT [KEY=VALUE]... -- PROGRAM [ARG]...
// Starts it COUNT times, one after the other, discards its output, and prints the wall-clock nanoseconds of each run,
// from before the process is created to after its end. A small parent and posix_spawn copy no page tables, so that the
// measurement adds little.

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv) {
    int at = 2;
    while (at < argc && strcmp(argv[at], "--") != 0) putenv(argv[at++]);
    if (at + 1 >= argc) {
        fputs("usage: spawn COUNT [KEY=VALUE]... -- PROGRAM [ARG]...\n", stderr);
        return 64;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    for (int left = atoi(argv[1]); left > 0; left--) {
        pid_t child;
        int status;
        long long start = now();
        int error = posix_spawnp(&child, argv[at + 1], &actions, NULL, argv + at + 1, environ);
        if (error) {
            fprintf(stderr, "spawn: %s: %s\n", argv[at + 1], strerror(error));
            return 127;
        }
        if (waitpid(child, &status, 0) < 0) return 1;
        long long nanoseconds = now() - start;
        if (status != 0) {
            fprintf(stderr, "spawn: %s: wait status %d\n", argv[at + 1], status);
            return 1;
        }
        printf("%lld\n", nanoseconds);
    }
    return 0;
}
