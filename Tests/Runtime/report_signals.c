// A report that cannot be written (file size limit, pipe without reader) neither ends the program nor eats its signals.
// preload
// warning: findings could not be written
// options: on_finding=continue:report_path=/tmp/zguard-signals-%p.jsonl

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void free_twice(void) {
    void *block = malloc(40);
    free(block);
    free(block);
}

// Returns the status of a program that starts with a limit on file sizes, which the runtime's statistics page may
// exceed.
static int status_of_start(char *program, uint64_t limit) {
    pid_t child = fork();
    if (!child) {
        struct rlimit limits = {limit, limit};
        setrlimit(RLIMIT_FSIZE, &limits);
        execl(program, program, "end at once", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    char path[64];
    snprintf(path, sizeof path, "/tmp/zguard-signals-%d.jsonl", child);
    unlink(path);
    return status;
}

int main(int count, char **words) {
    if (count > 1) return 0;
    char path[64];
    for (uint64_t limit = 0; limit <= 16384; limit += 4096)
        CHECK_EQUAL(status_of_start(words[0], limit), 0, "a program starts under a limit on the size of files");
    snprintf(path, sizeof path, "/tmp/zguard-signals-%d.jsonl", getpid());
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0, "a pipe");
    int kept = dup(2);
    close(ends[0]);
    dup2(ends[1], 2); // findings that the report cannot take go to standard error
    struct rlimit limit = {1, RLIM_INFINITY};
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0, "files may have a byte");
    free_twice();
    sigset_t pending;
    sigpending(&pending);
    CHECK(!sigismember(&pending, SIGXFSZ) && !sigismember(&pending, SIGPIPE), "no signal is left behind");
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGPIPE);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    raise(SIGPIPE);
    free_twice();
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGPIPE), "a blocked signal of the program's own stays");
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    dup2(kept, 2);
    unlink(path);
    return check_end();
}
