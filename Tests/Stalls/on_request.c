// Waits for bytes on standard input; at each 'w' it sleeps for as many milliseconds as the argument says. Echoes them.

#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
    char byte;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    if (count != 2) return 64;
    while (poll(&input, 1, -1) == 1 && read(0, &byte, 1) == 1) {
        struct timespec time = {.tv_nsec = atol(words[1]) * 1000000};
        if (byte == 'w') nanosleep(&time, NULL);
        if (write(1, &byte, 1) != 1) return 1;
    }
    return 0;
}
