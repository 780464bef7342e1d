// Runs one program and writes its cost: launch RESULT GROUP [KEY=VALUE]… -- PROGRAM [ARG]…
// This is a small program of its own, because a process's peak memory counts from before exec: a large parent would
// make every program seem as large as itself. RESULT gets: wall ns, user ns, system ns, peak memory in KiB (largest
// process of the tree), exit status as a shell gives it. GROUP is the cgroup.procs file of a control group that the
// program joins, or "-".

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long nanoseconds(struct timeval t) { return t.tv_sec * 1000000000LL + t.tv_usec * 1000LL; }

// Moves the calling process into the group. From then on, the kernel charges its memory to that group.
static int join(const char *procs) {
    int file = open(procs, O_WRONLY | O_CLOEXEC);
    if (file < 0) return -1;
    int joined = write(file, "0", 1) == 1;
    close(file);
    return joined ? 0 : -1;
}

int main(int argc, char **argv) {
    int at = 3;
    while (at < argc && strcmp(argv[at], "--") != 0) at++;
    if (argc < 3 || at + 1 >= argc) {
        fputs("usage: launch RESULT GROUP [KEY=VALUE]... -- PROGRAM [ARG]...\n", stderr);
        return 64;
    }
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pid_t child = fork();
    if (child < 0) {
        perror("launch: fork");
        return 1;
    }
    if (child == 0) {
        if (strcmp(argv[2], "-") != 0 && join(argv[2]) != 0) {
            fprintf(stderr, "launch: %s: %s\n", argv[2], strerror(errno));
            _exit(127);
        }
        for (int i = 3; i < at; i++) putenv(argv[i]);
        execvp(argv[at + 1], argv + at + 1);
        fprintf(stderr, "launch: %s: %s\n", argv[at + 1], strerror(errno));
        _exit(127);
    }
    int status;
    struct rusage usage;
    while (wait4(child, &status, 0, &usage) < 0)
        if (errno != EINTR) return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    FILE *result = fopen(argv[1], "w");
    if (!result) {
        perror("launch: result");
        return 1;
    }
    fprintf(result, "%lld %lld %lld %ld %d\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec,
            nanoseconds(usage.ru_utime), nanoseconds(usage.ru_stime), usage.ru_maxrss,
            WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    return fclose(result) != 0;
}
