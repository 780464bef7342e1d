// Waits for bytes on standard input, and echoes them. At an 's' it sleeps for 900 ms before, at a 'c' it computes for 190 ms and is then
// brisk for 700: it waits, and goes on, again and again.

#include <poll.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

int main(void) {
    char byte;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, -1) == 1 && read(0, &byte, 1) == 1) {
        struct timespec time = {.tv_nsec = 900000000};
        if (byte == 's') nanosleep(&time, NULL);
        if (byte == 'c') {
            for (double end = now() + 190; now() < end;) {
            }
            for (double end = now() + 700; now() < end;) poll(NULL, 0, 3);
        }
        if (write(1, &byte, 1) != 1) return 1;
    }
    return 0;
}
