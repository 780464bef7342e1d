// A server that runs as root. The parent makes a finding, waits until the worker attacks, and makes another finding.
// The worker drops its privileges (argument: setuid, setreuid or setresuid), makes a finding itself, and then tries to
// truncate and overwrite every file that it has open, until the parent kills it.

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { USER = 65534 };

#define FINDER(name)                                                                                                   \
    __attribute__((noinline)) static void name(void *volatile block) {                                                 \
        free(block);                                                                                                   \
        free(block);                                                                                                   \
        __asm__ volatile("# " #name);                                                                                  \
    }
// clang-format off
FINDER(free_before) FINDER(free_meanwhile) FINDER(free_of_worker)
    // clang-format on

    static void give_up(const char *how) {
    int failed = setgid(USER);
    if (!strcmp(how, "setuid")) failed |= setuid(USER);
    else if (!strcmp(how, "setreuid")) failed |= setreuid(USER, USER);
    else failed |= setresuid(USER, USER, USER);
    if (failed) _exit(4);
}

static void attack(void) {
    static const char zeros[4096];
    for (;;)
        for (int number = 3; number < 4096; number++) {
            if (fcntl(number, F_GETFD) < 0) continue;
            int flags = fcntl(number, F_GETFL);
            fcntl(number, F_SETFL, flags & ~O_APPEND);
            if (ftruncate(number, 0) == 0) write(1, "cut\n", 4);
            pwrite(number, zeros, sizeof zeros, 0);
        }
}

int main(int count, char **words) {
    int ready[2];
    char byte;
    if (count != 2 || pipe(ready)) return 2;
    free_before(malloc(100));
    int worker = fork();
    if (!worker) {
        give_up(words[1]);
        free_of_worker(malloc(100));
        nanosleep(&(struct timespec){0, 500000000}, NULL); // zguard has read the worker's own finding by then
        write(ready[1], "x", 1);
        attack();
    }
    read(ready[0], &byte, 1);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    free_meanwhile(malloc(100));
    nanosleep(&(struct timespec){0, 500000000}, NULL);
    kill(worker, SIGKILL);
    wait(NULL);
    return 0;
}
