// Ends while a thread is in a call that nothing interrupts: vfork, whose child sleeps. "main": the first thread is in
// the call, and another ends the process. "abort": the process ends by a signal.

#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS = 8 }; // longer than zguard waits for a thread

static void *wait_in_vfork(void *unused) {
    if (vfork() == 0) {
        sleep(SECONDS);
        _exit(0);
    }
    return unused;
}

static const char *how = "";

static void *end(void *unused) {
    usleep(200000);
    if (!strcmp(how, "abort")) abort();
    exit(0);
    return unused;
}

int main(int count, char **words) {
    pthread_t thread;
    if (count > 1) how = words[1];
    if (!strcmp(how, "main")) {
        pthread_create(&thread, NULL, end, NULL);
        wait_in_vfork(NULL);
    }
    pthread_create(&thread, NULL, wait_in_vfork, NULL);
    end(NULL);
}
