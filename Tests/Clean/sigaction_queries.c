// sigaction returns the handler, flags and mask that the program has set, for SIGSEGV, too.

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void on_signal(int number) { handled = number; }

int main(void) {
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGUSR1};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old = {0}, now = {0}, mine = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_NODEFER};
        sigaddset(&mine.sa_mask, SIGUSR2);
        printf("%d", sigaction(numbers[i], NULL, &old));
        printf(" %d %x", old.sa_handler == SIG_DFL, (unsigned)old.sa_flags);
        printf(" %d", sigaction(numbers[i], &mine, &old));
        printf(" %d", sigaction(numbers[i], NULL, &now));
        printf(" %d %x", now.sa_handler == on_signal, (unsigned)now.sa_flags & ~0x04000000u);
        printf(" %d %d", sigismember(&now.sa_mask, SIGUSR2), sigismember(&now.sa_mask, SIGUSR1));
        raise(numbers[i]);
        printf(" %d", handled == numbers[i]);
        kill(getpid(), numbers[i]);
        printf(" %d", sigaction(numbers[i], &old, &now));
        printf(" %d\n", now.sa_handler == on_signal);
    }
    struct sigaction mine = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGSEGV, &mine, NULL);
    raise(SIGSEGV);
    sigaction(SIGSEGV, NULL, &mine);
    printf("%d\n", mine.sa_handler == SIG_DFL);
    errno = 0;
    printf("%d", sigaction(SIGKILL, &mine, NULL));
    printf(" %d\n", errno == EINVAL);
    return 0;
}
