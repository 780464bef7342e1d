// Two threads make the first calls of libc's own malloc at once, and end. Many processes repeat this race.
// preload
// control

#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

#include "life.h"

extern char **environ;
enum { PROCESSES = 200, THREADS = 2 };
static void *(*libc_malloc)(size_t);
static void (*libc_free)(void *);
static int ready;

static void *be_first(void *unused) {
    __atomic_fetch_add(&ready, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < THREADS) {
    }
    libc_free(libc_malloc(100));
    return unused;
}

static int race(void) {
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    libc_malloc = (void *(*)(size_t))dlsym(libc, "malloc");
    libc_free = (void (*)(void *))dlsym(libc, "free");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, be_first, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "race") == 0) return race();
    int failed = 0;
    for (int i = 0; i < PROCESSES; i++) {
        char *arguments[] = {words[0], "race", NULL};
        pid_t child;
        int status = -1;
        if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0) waitpid(child, &status, 0);
        failed += status != 0;
    }
    CHECK_EQUAL(failed, 0, "both threads end");
    return check_end();
}
