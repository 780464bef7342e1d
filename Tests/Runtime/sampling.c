// Profile sample: a use after free in a loop is found at the sampling rate, and at the same round for the same seed.
// slow
// preload
// timeout: 300
// libs: -lm

#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "life.h"

// Without arguments the program runs itself once for each seed. The run counts in shared memory how often it has
// committed its bug, and crashes when the block was isolated.

enum { SEEDS = 200, MOST = 1000000 };

static volatile uint64_t *rounds; // counter in shared memory, on the descriptor ROUNDS
enum { ROUNDS = 100 };

static void map_rounds(void) {
    rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ROUNDS, 0);
    if (rounds == MAP_FAILED) exit(3);
}

static __attribute__((noinline)) void bug(void) {
    volatile char *block = malloc(48);
    block[0] = 1;
    free((void *)block);
    __asm__ volatile("" ::: "memory");
    (void)block[1];
}

static int run(void) {
    map_rounds();
    for (uint64_t i = 1; i <= MOST; i++) {
        *rounds = i;
        bug();
    }
    return 0;
}

// malloc_usable_size of an isolated block is the requested size; libc's is larger.
enum { ODD = 41, EACH = 5, THREADS = 8000, CHILDREN = 1500 };

static int count_sampled(int blocks) {
    int sampled = 0;
    for (int i = 0; i < blocks; i++) {
        void *block = malloc(ODD);
        sampled += malloc_usable_size(block) == ODD;
        free(block);
    }
    return sampled;
}

static void *short_thread(void *sum) {
    __atomic_fetch_add((uint64_t *)sum, (uint64_t)count_sampled(EACH), __ATOMIC_RELAXED);
    return NULL;
}

// The share of sampled blocks is the same in one thread, in many short threads, and in many short processes.
static int run_shares(void) {
    map_rounds();
    uint64_t in_threads = 0;
    rounds[1] = (uint64_t)count_sampled(THREADS * EACH);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, short_thread, &in_threads) || pthread_join(thread, NULL)) return 4;
    }
    rounds[2] = in_threads;
    rounds[3] = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            __atomic_fetch_add((uint64_t *)&rounds[3], (uint64_t)count_sampled(EACH), __ATOMIC_RELAXED);
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status) return 5;
    }
    return 0;
}

static int rate;
static unsigned seed;

static void set_options(void) {
    char options[128];
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    snprintf(options, sizeof options, "profile=sample:sample_rate=%d:sample_seed=%u:report_path=/dev/null", rate, seed);
    setenv("ZGUARD_OPTIONS", options, 1);
}

// Returns the round in which the bug was found, or MOST + 1.
static uint64_t found_at(int with_rate, unsigned with_seed) {
    rate = with_rate;
    seed = with_seed;
    int status = life_run_self("run", set_options);
    CHECK(status == 128 + SIGSEGV || status == 0, "the program dies of its bug, or not");
    return status ? *rounds : MOST + 1;
}

static void check_distribution(void) {
    double sum = 0, squares = 0;
    uint64_t most = 0;
    int short_ones = 0;
    for (unsigned i = 1; i <= SEEDS; i++) {
        uint64_t at = found_at(100, i);
        sum += (double)at;
        squares += (double)at * (double)at;
        short_ones += at <= 69; // the median of a geometric distribution with this mean
        if (at > most) most = at;
    }
    double mean = sum / SEEDS, deviation = sqrt(squares / SEEDS - mean * mean), sigma = sqrt(100.0 * 99.0 / SEEDS);
    CHECK(fabs(mean - 100) < 3 * sigma, "the mean is the rate");
    CHECK(most < 2000, "no seed goes without for long");
    CHECK(deviation > 70 && deviation < 140, "how the rounds spread");
    CHECK(short_ones > 79 && short_ones < 121, "half of them are short");
    if (check_failures)
        fprintf(stderr, "rate 100: mean %.1f, deviation %.1f, most %lu, %d of %d within the median\n", mean, deviation,
                most, short_ones, SEEDS);
}

static void check_repeats(void) {
    for (unsigned i = 1; i <= 5; i++) CHECK_EQUAL(found_at(100, i), found_at(100, i), "the same seed, the same round");
    uint64_t at = found_at(10000, 7);
    CHECK(at < 20 * 10000, "a rate of 10,000 finds it in time");
    CHECK_EQUAL(at, found_at(10000, 7), "and where it did before");
    bool differs = false;
    for (unsigned i = 1; i <= 5; i++) differs = differs || found_at(1000, i) != found_at(1000, i + 100);
    CHECK(differs, "another seed, another round");
    differs = false;
    for (int i = 0; i < 5; i++) differs = differs || found_at(1000, 0) != found_at(1000, 0);
    CHECK(differs, "without a seed each run is another one");
}

static void check_share(uint64_t sampled, int blocks, const char *what) {
    double expected = (double)blocks / rate, sigma = sqrt(expected);
    if (!CHECK(fabs((double)sampled - expected) < 4 * sigma, what))
        fprintf(stderr, "%lu of %d blocks, at a rate of %d\n", sampled, blocks, rate);
}

static void check_shares(void) {
    rate = 50;
    seed = 0; // with a seed, each child of a fork would draw the same numbers
    CHECK_EQUAL(life_run_self("shares", set_options), 0, "the program with short threads and children");
    check_share(rounds[1], THREADS * EACH, "one block of so many is chosen in a long thread");
    check_share(rounds[2], THREADS * EACH, "and in short threads");
    check_share(rounds[3], CHILDREN * EACH, "and in short children");
}

int main(int count, char **words) {
    if (count == 2) return strcmp(words[1], "shares") ? run() : run_shares();
    int shared = memfd_create("rounds", 0);
    if (shared < 0 || ftruncate(shared, 4096) || dup2(shared, ROUNDS) != ROUNDS) return 3;
    map_rounds();
    CHECK_EQUAL(found_at(1, 1), 1, "with a rate of 1 every block is chosen");
    check_distribution();
    check_repeats();
    check_shares();
    return check_end();
}
