// usage: frames DEPTH...
// Captures stacks of each depth repeatedly, with each method. Prints "DEPTH METHOD NANOSECONDS": the time of one
// capture, without the surrounding calls. Fails if a stack is not DEPTH frames deep, or if the stack cache lacks stacks
// that a row of `methods` expects it to hold.

#define _POSIX_C_SOURCE 200809L
#include "capture.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
// Placed behind a call: prevents a tail call, and keeps the compiler from merging it with the calls of other sites.
#define STAY(number) __asm__ volatile("" ::"i"(number) : "memory")

enum { SITES = 64, STACKS = SITES * SITES, WARM_UP = 3 * STACKS }; // SITES: call sites in inner(), and in middle()
enum { LEAST_DEPTH = 5 };                                          // inner, middle, run and two frames of libc

typedef void capture_function(void);

struct job {
    capture_function *capture;
    bool is_varied; // the two innermost frames differ at each capture, and repeat after STACKS captures
    long count;
    int padding;        // frames still to be added
    double nanoseconds; // result: time of one capture with the surrounding calls
};

#define SITE(n, call)                                                                                                  \
    case n:                                                                                                            \
        call;                                                                                                          \
        STAY(n);                                                                                                       \
        break;
#define SITES_4(n, call) SITE(n, call) SITE(n + 1, call) SITE(n + 2, call) SITE(n + 3, call)
#define SITES_16(n, call) SITES_4(n, call) SITES_4(n + 4, call) SITES_4(n + 8, call) SITES_4(n + 12, call)
#define SITES_64(call) SITES_16(0, call) SITES_16(16, call) SITES_16(32, call) SITES_16(48, call)

static NOINLINE void inner(capture_function *capture, int site) {
    switch (site) { SITES_64(capture()) }
}

static NOINLINE void middle(capture_function *capture, int site, int inner_site) {
    switch (site) { SITES_64(inner(capture, inner_site)) }
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

// Warms up, measures, and checks each stack once. All calls come from one place, so that the stacks are the same.
static NOINLINE void *run(void *argument) {
    struct job *job = argument;
    long measured = WARM_UP + job->count;
    long long start = 0;
    for (long i = 0; i < measured + STACKS; i++) {
        if (i == WARM_UP) start = now();
        if (i == measured) job->nanoseconds = (double)(now() - start) / (double)job->count;
        // STACKS is a power of two, so an odd factor visits all pairs of sites. 2731 changes both sites each time.
        int stack = job->is_varied ? (int)(i * 2731 % STACKS) : 0;
        middle(i < measured ? job->capture : capture_look, stack / SITES, stack % SITES);
    }
    return NULL;
}

// Frames of different sizes between thread start and run().
typedef void *frame_function(void *);
static frame_function *next_frame(struct job *job);

static NOINLINE void *small_frame(void *job) {
    next_frame(job)(job);
    STAY(0);
    return NULL;
}

static NOINLINE void *wide_frame(void *job) {
    char room[300];
    __asm__ volatile("" ::"r"(room) : "memory");
    next_frame(job)(job);
    STAY(0);
    return NULL;
}

static frame_function *next_frame(struct job *job) {
    if (job->padding == 0) return run;
    return job->padding-- % 2 ? small_frame : wide_frame;
}

// Measures in a new thread, whose two outermost frames are known and whose caches are empty.
static void measure(struct job *job) {
    pthread_t thread;
    job->padding = capture_depth - LEAST_DEPTH;
    capture_seen = (struct capture_seen){0};
    if (pthread_create(&thread, NULL, next_frame(job), job) != 0 || pthread_join(thread, NULL) != 0) {
        fputs("frames: cannot run a thread\n", stderr);
        exit(1);
    }
    if (capture_seen.lost == 0) return;
    fprintf(stderr, "frames: %ld of %d stacks are not %d frames deep\n", capture_seen.lost, STACKS, capture_depth);
    exit(1);
}

struct method {
    const char *name;
    capture_function *capture, *around; // the measured call, and the call whose time is subtracted
    bool is_varied, is_cached;          // expected properties of the stacks
    long count;
};

static const struct method methods[] = {
    {"hit", capture_product, capture_entered, false, true, 400000},
    {"trail", capture_product, capture_entered, true, false, 200000},
    {"walk", capture_walk, capture_entered, false, false, 40000},
    {"libunwind", capture_libunwind, capture_called, false, false, 20000},
    {"backtrace", capture_backtrace, capture_called, false, false, 4000},
};

static double nanoseconds(const struct method *method) {
    struct job around = {.capture = method->around, .is_varied = method->is_varied, .count = 400000};
    struct job job = {.capture = method->capture, .is_varied = method->is_varied, .count = method->count};
    measure(&around);
    measure(&job);
    // If `is_cached` is false, the stack cache may know one of the checked stacks at most.
    if (method->is_cached ? capture_seen.cached != STACKS : capture_seen.cached > 1) {
        fprintf(stderr, "frames: %s: the cache knows %ld of %d stacks\n", method->name, capture_seen.cached, STACKS);
        exit(1);
    }
    return job.nanoseconds - around.nanoseconds;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        capture_depth = atoi(argv[i]);
        if (capture_depth < LEAST_DEPTH) {
            fprintf(stderr, "frames: the smallest depth is %d\n", LEAST_DEPTH);
            return 64;
        }
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
            printf("%d %s %.1f\n", capture_depth, methods[m].name, nanoseconds(&methods[m]));
    }
    return 0;
}
