// A signal handler interrupts malloc and free and forks: child and parent keep the signal mask of the handler.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t forks, wrong;

static int mask_is_wrong(void) {
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    return !sigismember(&mask, SIGALRM) || !sigismember(&mask, SIGUSR1) || sigismember(&mask, SIGUSR2);
}

static void again(void) {
    struct itimerval soon = {.it_value = {0, 300}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void on_alarm(int number) {
    (void)number;
    int status = 1;
    pid_t child = fork();
    if (child == 0) _exit(mask_is_wrong());
    if (waitpid(child, &status, 0) != child || status || mask_is_wrong()) wrong++;
    if (++forks < 150) again();
}

int main(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGALRM, &action, NULL);
    again();
    for (long size = 1; forks < 150; size = size % 2000 + 1) {
        void *volatile block = malloc((size_t)size);
        free(block);
    }
    printf("wrong %d\n", (int)wrong);
}
