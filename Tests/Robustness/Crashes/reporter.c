// Processes and threads report findings as fast as they can, into one report. Once a call that made a finding has
// returned, the thread announces the finding on standard output by a line "PID".
// usage: reporter PROCESSES THREADS FINDINGS (of each thread)

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stacks.h"

enum { MOST = 16 };
static int findings;

static void *report(void *number) {
    char line[32];
    int length = snprintf(line, sizeof line, "%d\n", getpid());
    for (int i = 0; i < findings; i++) {
        free_twice((uint32_t)((intptr_t)number * findings + i));
        if (write(1, line, (size_t)length) != length) return NULL;
    }
    return NULL;
}

int main(int count, char **words) {
    if (count < 4) return 64;
    int processes = atoi(words[1]), threads = atoi(words[2]);
    pthread_t running[MOST];
    findings = atoi(words[3]);
    for (int i = 1; i < processes; i++)
        if (fork() == 0) processes = 0;
    for (intptr_t i = 0; i < threads && i < MOST; i++)
        if (pthread_create(&running[i], NULL, report, (void *)i) != 0) return 60;
    for (int i = 0; i < threads && i < MOST; i++) pthread_join(running[i], NULL);
    while (processes && wait(NULL) > 0) {
    }
    return 0;
}
