// Prints how many files can be opened: at the start, in a child, in a thread, in a child of that thread, and at the
// end.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 5000 };

static void say(const char *where) {
    static int opened[MOST];
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    int count = 0, first = -1;
    while (count < MOST && (opened[count] = open("/", O_RDONLY | O_CLOEXEC)) >= 0) count++;
    if (count) first = opened[0];
    for (int i = 0; i < count; i++) close(opened[i]);
    // Freeing blocks may make the runtime open descriptors.
    for (int i = 0; i < 1000; i++) free(malloc(100 + (size_t)i));
    char line[128];
    int bytes = snprintf(line, sizeof line, "%s: %d from %d, limit %ld\n", where, count, first, (long)limit.rlim_cur);
    if (write(1, line, (size_t)bytes) != bytes) _exit(3);
}

static void in_child(const char *where) {
    pid_t child = fork();
    if (child < 0) exit(2);
    if (child) {
        waitpid(child, NULL, 0);
        return;
    }
    say(where);
    _exit(0);
}

static void *run(void *unused) {
    say("thread");
    in_child("child of a thread");
    return unused;
}

int main(void) {
    say("start");
    in_child("child");
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL)) return 2;
    pthread_join(thread, NULL);
    say("end");
    return 0;
}
