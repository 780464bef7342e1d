// A block is allocated before vfork and freed afterwards; the child only executes another program.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int run_shell(void) {
    pid_t pid = vfork();
    if (!pid) {
        execl("/bin/sh", "sh", "-c", "exit 5", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

int main(void) {
    int exits = 0;
    for (int i = 0; i < 20; i++) {
        char *text = strdup("argument");
        exits += run_shell();
        free(text);
    }
    printf("%d\n", exits);
    return 0;
}
