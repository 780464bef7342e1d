// Threads query and set the action of a signal while the program forks; each child can set the action, too.
// libs: -lpthread

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int stop;

static void *ask_and_set(void *unused) {
    struct sigaction action;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        sigaction(SIGSEGV, NULL, &action);
        sigaction(SIGSEGV, &action, NULL);
    }
    return unused;
}

int main(void) {
    pthread_t threads[2];
    int good = 0;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, ask_and_set, NULL);
    for (int i = 0; i < 150; i++) {
        pid_t pid = fork();
        if (!pid) _exit(signal(SIGSEGV, SIG_IGN) == SIG_DFL ? 3 : 4);
        int status = 0;
        waitpid(pid, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 3;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("%d children\n", good);
    return 0;
}
