// Event loop that echoes bytes from standard input. Before it echoes an 's' it sleeps for 900 ms; before it echoes a
// 'c' it computes for 190 ms and then polls every 3 ms for 700 ms.

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
