// Signal handlers and the program allocate and free at a high rate: no block is lost or doubled, no handler hangs.
// preload

#include <pthread.h>
#include <sys/time.h>

#include "life.h"

enum { RING = 256 };
static void *ring[RING]; // allocated in one run of the handler, freed in another
static unsigned ring_at;
static uint64_t handled, wrong;
static int stop;
static __thread int in_handler;

static void on_signal(int number) {
    (void)number;
    if (in_handler++) {
        in_handler--;
        return;
    }
    for (int i = 0; i < 3; i++) {
        unsigned at = __atomic_fetch_add(&ring_at, 1, __ATOMIC_RELAXED) % RING;
        unsigned char *made = malloc(1 + at * 7);
        if (!made) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        else made[0] = (unsigned char)at;
        unsigned char *old = __atomic_exchange_n(&ring[at], made, __ATOMIC_ACQ_REL);
        if (old && old[0] != (unsigned char)at) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        free(old);
    }
    void *small = realloc(malloc(10), 200);
    free(small);
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
    in_handler--;
}

static void *shoot(void *target) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        pthread_kill(*(pthread_t *)target, SIGUSR1);
        usleep(20);
    }
    return NULL;
}

static void *short_lived(void *unused) {
    (void)unused;
    return (void *)(uint64_t)work_with_blocks(20);
}

int main(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &every, NULL);
    pthread_t self = pthread_self(), thread;
    pthread_create(&thread, NULL, shoot, &self);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        CHECK_EQUAL(work_with_blocks(2000), 0, "the program works under fire");
        pthread_t other;
        void *result = NULL;
        // The timer also interrupts a thread's first and last instructions.
        if (CHECK_EQUAL(pthread_create(&other, NULL, short_lived, NULL), 0, "a thread starts under fire")) {
            pthread_join(other, &result);
            CHECK_EQUAL(result, 0, "a thread works under fire");
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec < 4);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &none, NULL);
    CHECK(handled > 1000, "handlers ran");
    CHECK_EQUAL(wrong, 0, "blocks of the handlers are intact");
    for (int i = 0; i < RING; i++) free(ring[i]);
    return check_end();
}
