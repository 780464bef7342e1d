// An unprivileged program locks its memory within a limit that suffices unguarded, then maps, allocates and forks.
// static: unguarded, the executable has less memory than the program expects

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif
#define NOBODY 65534

static long kilobytes(const char *name) {
    char line[256];
    long value = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, name, strlen(name))) value = atol(line + strlen(name));
    if (status) fclose(status);
    return value;
}

// Allocates blocks of all sizes with few of them live at a time, and maps more memory.
static const char *go_on(void) {
    char *kept[64] = {NULL};
    for (int i = 0; i < 4000; i++) {
        size_t bytes = i % 2 ? (size_t)i : (size_t)i * 400;
        free(kept[i % 64]);
        kept[i % 64] = NULL;
        if (i % 2 == 0 && i % 128) continue;
        kept[i % 64] = malloc(bytes + 1);
        if (!kept[i % 64]) return "no memory";
        memset(kept[i % 64], i, bytes + 1);
    }
    for (int i = 0; i < 64; i++) free(kept[i]);
    void *own = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) return "no mapping";
    memset(own, 1, 1 << 20);
    munmap(own, 1 << 20);
    return "goes on";
}

static int lock(int flags, long limit_kilobytes) {
    struct rlimit limit = {(rlim_t)limit_kilobytes << 10, (rlim_t)limit_kilobytes << 10};
    char *before = malloc(100000);
    memset(before, 1, 100000);
    if (setrlimit(RLIMIT_MEMLOCK, &limit) || (geteuid() == 0 && setuid(NOBODY))) return 1;
    int result = mlockall(flags);
    long locked = kilobytes("VmLck:");
    printf("flags %d, %ld KB: %s, %s", flags, limit_kilobytes, result ? "refused" : "locked",
           !(flags & MCL_CURRENT) || result || (locked > 1500 && locked <= limit_kilobytes) ? "as it should be"
                                                                                            : "wrong");
    printf(", %s", limit_kilobytes > 4096 ? go_on() : "ends");
    pid_t child = fork();
    if (!child) _exit(strcmp(go_on(), "goes on") || kilobytes("VmLck:") ? 1 : 3);
    int status = 0;
    waitpid(child, &status, 0);
    printf(", child %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    free(before);
    if (munlockall()) return 2;
    printf(", %ld locked at the end\n", kilobytes("VmLck:"));
    return 0;
}

int main(void) {
    static const struct {
        int flags;
        long kilobytes;
    } cases[] = {{MCL_CURRENT, 4096},
                 {MCL_CURRENT, 1024},
                 {MCL_CURRENT, 8192},
                 {MCL_CURRENT | MCL_FUTURE, 8192},
                 {MCL_CURRENT | MCL_ONFAULT, 8192},
                 {MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT, 8192},
                 {MCL_FUTURE, 8192},
                 {MCL_ONFAULT, 8192},
                 {0, 8192}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            int result = lock(cases[i].flags, cases[i].kilobytes);
            fflush(stdout);
            _exit(result);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status) printf("ended with %d\n", status);
    }
    return 0;
}
