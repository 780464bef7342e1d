// A program and its children end by signals that they send themselves (abort, kill, raise): this is no finding.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(int how) {
    free(malloc(10));
    if (how == 0) abort();
    if (how == 1) kill(getpid(), SIGSEGV);
    if (how == 2) raise(SIGFPE);
    if (how == 3) raise(SIGKILL);
    raise(SIGTERM);
}

int main(void) {
    for (int how = 0; how < 4; how++) {
        fflush(stdout);
        pid_t pid = fork();
        if (!pid) die(how);
        int status = 0;
        waitpid(pid, &status, 0);
        printf("%d\n", WTERMSIG(status));
    }
    fflush(stdout);
    die(4);
    return 0;
}
