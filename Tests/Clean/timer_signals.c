// A timer interrupts the program hundreds of times inside malloc and free; its handler only counts.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void on_tick(int number) { ticks += number == SIGALRM; }

int main(void) {
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval interval = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    void *kept[64] = {NULL};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &interval, NULL);
    for (unsigned i = 0; ticks < 300; i++) {
        free(kept[i % 64]);
        kept[i % 64] = malloc(i % 2000);
    }
    setitimer(ITIMER_REAL, &off, NULL);
    for (int i = 0; i < 64; i++) free(kept[i]);
    puts("300 ticks");
    return 0;
}
