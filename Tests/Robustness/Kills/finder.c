// Makes forty findings at random intervals, each in its own function and with its own block. After each finding the
// program continues, and appends a line with the process's number and the function's name to the file PATH. Finding i
// is made by process i modulo PROCESSES; the processes run at the same time.
// usage: finder PATH SEED PROCESSES

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int file;
static uint64_t state;
static char prefix[8];

static unsigned chance(unsigned most) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % most;
}

static void acknowledge(const char *name) {
    char line[64];
    int count = snprintf(line, sizeof line, "%s%s\n", prefix, name);
    if (write(file, line, (size_t)count) != count) _exit(3);
    usleep(chance(4) ? chance(1500) : 0);
}

// The block's size identifies the function and the process, and so the finding.
#define FINDER(number)                                                                                                 \
    __attribute__((noinline)) static void find_##number(void *volatile block) {                                        \
        free(block);                                                                                                   \
        free(block);                                                                                                   \
        acknowledge("find_" #number);                                                                                  \
    }
#define TEN(X, tens)                                                                                                   \
    X(tens##0) X(tens##1) X(tens##2) X(tens##3) X(tens##4) X(tens##5) X(tens##6) X(tens##7) X(tens##8) X(tens##9)
#define FORTY(X) TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4)
FORTY(FINDER)
#define ENTRY(number) find_##number,
static void (*const finders[])(void *volatile) = {FORTY(ENTRY)};

int main(int count, char **words) {
    if (count != 4) return 2;
    file = open(words[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    state = strtoull(words[2], NULL, 10);
    int processes = atoi(words[3]);
    for (int process = 0; process < processes; process++) {
        if (process && fork()) continue;
        snprintf(prefix, sizeof prefix, "%d ", process);
        state += (uint64_t)process;
        for (unsigned i = 0; i < sizeof finders / sizeof *finders; i++)
            if ((int)i % processes == process) finders[i](malloc(16 + i));
        if (process) _exit(0);
    }
    while (wait(NULL) > 0) {
    }
    return 0;
}
