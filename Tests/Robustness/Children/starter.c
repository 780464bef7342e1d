// usage: starter FUNCTION HOW PROGRAM: starts PROGRAM by FUNCTION, waits, and prints the program's exit status; then
// whether LD_PRELOAD in `environ` has changed.
// HOW: "vfork" instead of fork before exec…; "wait": the starter waits for a line on standard input before it ends.

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void start(const char *way, const char *program) {
    char *arguments[] = {(char *)program, "one", NULL};
    if (!strcmp(way, "execve")) execve(program, arguments, environ);
    if (!strcmp(way, "execv")) execv(program, arguments);
    if (!strcmp(way, "execvp")) execvp(strrchr(program, '/') + 1, arguments);
    if (!strcmp(way, "execvpe")) execvpe(strrchr(program, '/') + 1, arguments, environ);
    if (!strcmp(way, "execl")) execl(program, program, "one", (char *)NULL);
    if (!strcmp(way, "execlp")) execlp(strrchr(program, '/') + 1, program, "one", (char *)NULL);
    if (!strcmp(way, "execle")) execle(program, program, "one", (char *)NULL, environ);
    if (!strcmp(way, "fexecve")) fexecve(open(program, O_RDONLY), arguments, environ);
    if (!strcmp(way, "execveat")) execveat(AT_FDCWD, program, arguments, environ, 0);
    if (!strcmp(way, "syscall")) syscall(SYS_execve, program, arguments, environ);
}

static __attribute__((noinline)) pid_t run(const char *way, const char *program, int shares) {
    pid_t child;
    char *arguments[] = {(char *)program, "one", NULL};
    if (!strcmp(way, "posix_spawn")) return posix_spawn(&child, program, NULL, NULL, arguments, environ) ? -1 : child;
    if (!strcmp(way, "posix_spawnp"))
        return posix_spawnp(&child, strrchr(program, '/') + 1, NULL, NULL, arguments, environ) ? -1 : child;
    child = shares ? vfork() : fork();
    if (child == 0) {
        start(way, program);
        _exit(99);
    }
    return child;
}

int main(int count, char **words) {
    if (count < 4) return 64;
    char *before = strdup(getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "");
    int status = -1;
    pid_t child = run(words[1], words[3], !strcmp(words[2], "vfork"));
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    const char *after = getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "";
    puts(strcmp(before, after) ? "changed" : "unchanged");
    fflush(stdout);
    if (!strcmp(words[2], "wait")) getchar();
    return 0;
}
