// A program starts itself again under an address space limit of 1 GiB, as `ulimit -v` does.
// libs: -lpthread
// warning: the program is not guarded

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *unused) {
    for (int i = 0; i < 10000; i++) free(malloc((size_t)(i % 5000)));
    return unused;
}

static int child(void) {
    pthread_t thread;
    char *block = malloc(32 << 20);
    if (!block || pthread_create(&thread, NULL, work, NULL)) return 1;
    memset(block, 1, 32 << 20);
    work(NULL);
    pthread_join(thread, NULL);
    free(block);
    return 9;
}

int main(int count, char **arguments) {
    if (count > 1) return child();
    pid_t pid = fork();
    if (!pid) {
        struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
        setrlimit(RLIMIT_AS, &limit);
        execl("/proc/self/exe", arguments[0], "child", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}
