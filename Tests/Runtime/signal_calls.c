// signal, sysv_signal and siginterrupt behave as in libc.
// preload
// control

#include <errno.h>
#include <signal.h>

#include "check.h"

static void handler(int number) { (void)number; }

int main(void) {
    static const int numbers[] = {SIGUSR1, SIGSEGV, SIGBUS};
    for (int i = 0; i < 3; i++) {
        struct sigaction action;
        CHECK(signal(numbers[i], handler) == SIG_DFL, "signal gives the former disposition");
        CHECK(sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == handler, "sigaction gives the handler");
        CHECK(action.sa_flags & SA_RESTART, "signal restarts calls");
        errno = 0;
        CHECK(signal(numbers[i], SIG_ERR) == SIG_ERR, "SIG_ERR is no handler");
        CHECK_EQUAL(errno, EINVAL, "and the error is EINVAL");
        sigaction(numbers[i], NULL, &action);
        CHECK(action.sa_handler == handler, "nothing changed");
        sysv_signal(numbers[i], handler);
        sigaction(numbers[i], NULL, &action);
        CHECK((action.sa_flags & SA_RESETHAND) && (action.sa_flags & SA_NODEFER), "sysv_signal is for once");
        CHECK(!(action.sa_flags & SA_RESTART), "and does not restart calls");
        CHECK(signal(numbers[i], SIG_DFL) == handler, "the handler goes");
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct sigaction action;
    siginterrupt(SIGUSR2, 1);
    signal(SIGUSR2, handler);
    sigaction(SIGUSR2, NULL, &action);
    CHECK(!(action.sa_flags & SA_RESTART), "after siginterrupt signal does not restart calls");
    siginterrupt(SIGUSR2, 0);
    signal(SIGUSR2, handler);
    sigaction(SIGUSR2, NULL, &action);
    CHECK(action.sa_flags & SA_RESTART, "until it is taken back");
#pragma GCC diagnostic pop
    errno = 0;
    CHECK(signal(0, handler) == SIG_ERR && errno == EINVAL, "signal 0 is refused");
    errno = 0;
    CHECK(signal(1000, handler) == SIG_ERR && errno == EINVAL, "signal 1000 is refused");
    return check_end();
}
