// Fork handlers, registered before any library starts and later, join an allocating thread and start it again.
// libs: -lpthread
// musl: unguarded, it does not end

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { workers = 2, forks = 40, more_handlers = 100 };

static pthread_t threads[workers];
static int stops[workers], wrong;

// Allocates all sizes, so that magazines (thread caches) run empty repeatedly and the thread has to take locks.
static void churn(unsigned *seed) {
    char *kept[64];
    for (int i = 0; i < 64; i++) {
        size_t bytes = 16 + (*seed = *seed * 1103515245 + 12345) / 65536 % 9000;
        kept[i] = malloc(bytes);
        memset(kept[i], i, bytes);
    }
    for (int i = 0; i < 64; i++) {
        if (kept[i][15] != (char)i) wrong++;
        free(kept[i]);
    }
}

static void *work(void *number) {
    unsigned seed = (unsigned)(long)number;
    while (!__atomic_load_n(&stops[(long)number], __ATOMIC_RELAXED)) churn(&seed);
    return malloc(100);
}

static void start(long number) {
    stops[number] = 0;
    if (pthread_create(&threads[number], NULL, work, (void *)number) != 0) wrong++;
}

static void end(long number) {
    void *last = NULL;
    __atomic_store_n(&stops[number], 1, __ATOMIC_RELAXED);
    if (pthread_join(threads[number], &last) != 0 || !last) wrong++;
    free(last);
}

static int is_running;
static void end_early(void) {
    if (is_running) end(0);
}
static void start_early(void) {
    if (is_running) start(0);
}
static void end_late(void) { end(1); }
static void start_late(void) { start(1); }

static void register_early(void) {
    if (pthread_atfork(end_early, start_early, start_early) != 0) wrong++;
}
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = register_early;

static void do_nothing(void) {}

static void *churn_and_register(void *stop) {
    unsigned seed = 7;
    for (int i = 0; !__atomic_load_n((int *)stop, __ATOMIC_RELAXED); i++) {
        churn(&seed);
        if (i < more_handlers && pthread_atfork(NULL, do_nothing, do_nothing) != 0) wrong++;
    }
    return NULL;
}

int main(void) {
    pthread_t other;
    int stop = 0, good = 0;
    pthread_atfork(end_late, start_late, start_late);
    is_running = 1;
    for (long i = 0; i < workers; i++) start(i);
    pthread_create(&other, NULL, churn_and_register, &stop);
    for (int i = 0; i < forks; i++) {
        char *text = strdup("made by the parent");
        pid_t child = fork();
        if (!child) {
            unsigned seed = 3;
            for (int j = 0; j < 10; j++) churn(&seed);
            free(text);
            for (long j = 0; j < workers; j++) end(j);
            exit(wrong ? 1 : 3);
        }
        int status = 0;
        waitpid(child, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 3;
        free(text);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    for (long i = 0; i < workers; i++) end(i);
    printf("%d children, %d wrong\n", good, wrong);
    return 0;
}
