// Event loop that computes for the seconds of CPU time in its first argument. A second argument is the cgroup.procs
// file of a cgroup that the program joins first.
// usage: on_processor SECONDS [CGROUP/cgroup.procs]
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

__attribute__((noinline, noclone)) static void compute(double length) {
    for (double end = seconds() + length; seconds() < end;)
        for (int i = 0; i < 10000; i++) sink += (unsigned long)i;
}

int main(int count, char **words) {
    if (count < 2) return 3;
    if (count > 2) {
        int file = open(words[2], O_WRONLY);
        if (file < 0 || write(file, "0", 1) != 1) return 2;
        close(file);
    }
    for (int i = 0; i < 3; i++) poll(NULL, 0, 20);
    compute(atof(words[1]));
    for (int i = 0; i < 3; i++) poll(NULL, 0, 20);
    return 0;
}
