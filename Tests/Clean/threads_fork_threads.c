// The child of a threaded program starts threads, forks again and ends by exit(), which runs its handlers.
// libs: -lpthread

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *unused) {
    for (int i = 0; i < 2000; i++) free(calloc(1, (size_t)(i % 700)));
    return unused;
}

static void run_threads(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void at_exit(void) { free(malloc(100)); }

static int descend(int depth) {
    run_threads();
    if (!depth) return 1;
    pid_t pid = fork();
    if (!pid) exit(descend(depth - 1) + 1);
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -100;
}

int main(void) {
    atexit(at_exit);
    printf("%d\n", descend(5));
    return 0;
}
