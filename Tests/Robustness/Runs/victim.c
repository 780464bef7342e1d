// Waits until its input ends, then prints whether another process traced it; a child checks this all the time.
// Unguarded, and not part of any run.

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int was_traced(int process, int until) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", process);
    int file = open(path, O_RDONLY), traced = 0;
    struct pollfd end = {.fd = until, .events = POLLIN};
    while (poll(&end, 1, 0) == 0) {
        ssize_t count = pread(file, text, sizeof text - 1, 0);
        text[count > 0 ? count : 0] = 0;
        const char *line = strstr(text, "TracerPid:");
        traced |= line && atoi(line + 10) != 0;
    }
    return traced;
}

int main(void) {
    int ends[2], status, process = getpid();
    if (pipe(ends)) return 1;
    int watcher = fork();
    if (!watcher) {
        close(ends[1]);
        _exit(was_traced(process, ends[0]));
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    close(ends[1]);
    waitpid(watcher, &status, 0);
    puts(WEXITSTATUS(status) ? "traced" : "never traced");
    return 0;
}
