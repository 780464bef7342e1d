// Every exec function starts programs by path and by name, in children of fork and vfork, and reports its errors.
// musl: musl has no execveat

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum way {
    by_execve,
    by_execv,
    by_execvp,
    by_execvpe,
    by_execl,
    by_execlp,
    by_execle,
    by_fexecve,
    by_execveat,
    by_execveat_empty,
    by_number,
    ways
};
static const char *const names[] = {"execve",    "execv",  "execvp",  "execvpe",  "execl",
                                    "execlp",    "execle", "fexecve", "execveat", "execveat of a file",
                                    "its number"};

// An environment too long to copy onto a small stack.
enum { MANY = 3000 };
static char *many[MANY + 2], *few[] = {"FEW=1", NULL};

static void start(enum way way, const char *program, char *const *environment) {
    char *arguments[] = {"child", "first", "", NULL};
    int file = open(program, O_RDONLY | O_CLOEXEC);
    switch (way) {
    case by_execve: execve(program, arguments, environment); break;
    case by_execv: execv(program, arguments); break;
    case by_execvp: execvp(program, arguments); break;
    case by_execvpe: execvpe(program, arguments, environment); break;
    case by_execl: execl(program, "child", "first", "", (char *)NULL); break;
    case by_execlp: execlp(program, "child", "first", "", (char *)NULL); break;
    case by_execle: execle(program, "child", "first", "", (char *)NULL, environment); break;
    case by_fexecve: fexecve(file, arguments, environment); break;
    case by_execveat: execveat(AT_FDCWD, program, arguments, environment, 0); break;
    case by_execveat_empty: execveat(file, "", arguments, environment, AT_EMPTY_PATH); break;
    default: syscall(SYS_execve, program, arguments, environment);
    }
}

static int finish(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int say(int count, char **words) {
    extern char **environ;
    int entries = 0;
    for (char **entry = environ; *entry; entry++)
        entries += strncmp(*entry, "MANY", 4) == 0 || strncmp(*entry, "FEW", 3) == 0;
    return count == 3 && !strcmp(words[1], "first") && !*words[2] ? entries > 200 ? 200 : 10 + entries : 1;
}

static __attribute__((noinline)) pid_t start_child(enum way way, const char *program, char *const *environment,
                                                   int shares) {
    pid_t child = shares ? vfork() : fork();
    if (child == 0) {
        start(way, program, environment);
        _exit(99);
    }
    return child;
}

int main(int count, char **words) {
    if (count == 3) return say(count, words);
    if (count == 1) { // run again under a name that only a search of PATH finds
        char path[4096], self[4096];
        ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
        if (bytes < 0) return 1;
        self[bytes] = 0;
        char *last = strrchr(self, '/');
        snprintf(path, sizeof path, "/nowhere::%.*s:/bin", (int)(last - self), self);
        setenv("PATH", path, 1);
        setenv("FEW", "1", 1);
        execl(self, last + 1, last + 1, self, "3", (char *)NULL);
        return 2;
    }
    static char texts[MANY][16];
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "MANY%d=1", i);
        many[i] = texts[i];
    }
    many[MANY] = getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") - sizeof "LD_PRELOAD=" + 1 : NULL;
    extern char **environ;
    char **before = environ, *first = environ[0];
    for (enum way way = 0; way < ways; way++)
        for (int kind = 0; kind < 3; kind++) {
            const char *program =
                (way == by_execvp || way == by_execvpe || way == by_execlp) && kind ? words[1] : words[2];
            char *const *environment = kind == 0 ? environ : kind == 1 ? few : many;
            pid_t child = start_child(way, program, environment, kind == 1);
            printf("%s, %d: %d", names[way], kind, finish(child));
            start(way, "/nowhere/program", environment);
            printf(" %s", strerrorname_np(errno));
            start(way, "/etc/passwd", environment);
            printf(" %s", strerrorname_np(errno));
            start(way, "/tmp", environment);
            printf(" %s\n", strerrorname_np(errno));
            fflush(stdout);
        }
    char *arguments[] = {"child", "first", "", NULL};
    for (int kind = 0; kind < 3; kind++) {
        char *const *environment = kind == 0 ? environ : kind == 1 ? few : many;
        pid_t child;
        int error = posix_spawn(&child, words[2], NULL, NULL, arguments, environment);
        printf("posix_spawn, %d: %d %d", kind, error, finish(child));
        error = posix_spawnp(&child, words[1], NULL, NULL, arguments, environment);
        printf(", by name %d %d", error, finish(child));
        errno = 0;
        error = posix_spawn(&child, "/nowhere/program", NULL, NULL, arguments, environment);
        printf(", none %s", strerrorname_np(error));
        error = posix_spawnp(&child, "/etc/passwd", NULL, NULL, arguments, environment);
        printf(" %s, errno %d\n", strerrorname_np(error), errno);
        fflush(stdout);
    }
    printf("system: %d\n", system("exit 7"));
    puts(environ == before && environ[0] == first ? "environ is as it was" : "environ has changed");
    return 0;
}
