// A signal handler at a known point frees a block of the program and allocates one that the program frees.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *volatile exchanged;

static void on_signal(int number) {
    char *received = exchanged;
    exchanged = malloc(200);
    strcpy(exchanged, number == SIGUSR2 ? "from the handler" : "?");
    free(received);
}

int main(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR2, &action, NULL);
    for (int i = 0; i < 1000; i++) {
        exchanged = malloc(100);
        strcpy(exchanged, "from main");
        raise(SIGUSR2);
        if (i == 999) puts(exchanged);
        free(exchanged);
    }
    return 0;
}
