// A timer's handler writes heap blocks to a pipe and reads them back while the program allocates and frees.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

static int pair[2];
static char *block;
static volatile int handled, wrong;

static void on_alarm(int number) {
    int saved = errno;
    struct iovec vectors[] = {{block, 40}, {block + 40, 60}};
    errno = 77;
    wrong += write(pair[1], block, 100) != 100 || errno != 77;
    wrong += readv(pair[0], vectors, 2) != 100 || errno != 77;
    wrong += read(pair[0], block, 100) != -1 || errno != EAGAIN;
    handled += number == SIGALRM;
    errno = saved;
}

int main(void) {
    if (pipe(pair)) return 1;
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    block = calloc(1, 100);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    char *held[64] = {0};
    for (unsigned i = 0; handled < 1000; i = i * 1103515245u + 12345u) {
        unsigned at = i >> 20 & 63;
        free(held[at]);
        held[at] = malloc((i >> 8) % 3000);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < 64; i++) free(held[i]);
    printf("%d\n", wrong);
    free(block);
    return 0;
}
