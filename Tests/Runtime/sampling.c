// Profile sample: a use after free in a loop is found as often as the rate says, and where the seed says.
// preload
// timeout: 300
// libs: -lm

#include <math.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "life.h"

// Without arguments the program runs itself once for each seed; the run counts in shared memory how often it has
// committed its bug, and dies of it when the block was one with pages of its own.

enum { SEEDS = 200, MOST = 1000000 };

static volatile uint64_t *rounds; // in shared memory, on the descriptor ROUNDS
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

static int rate;
static unsigned seed;

static void set_options(void) {
    char options[128];
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    snprintf(options, sizeof options, "profile=sample:sample_rate=%d:sample_seed=%u:report_path=/dev/null", rate, seed);
    setenv("ZGUARD_OPTIONS", options, 1);
}

// In which round the bug was found; MOST + 1: it was not.
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

int main(int count, char **words) {
    (void)words;
    if (count == 2) return run();
    int shared = memfd_create("rounds", 0);
    if (shared < 0 || ftruncate(shared, 4096) || dup2(shared, ROUNDS) != ROUNDS) return 3;
    map_rounds();
    CHECK_EQUAL(found_at(1, 1), 1, "with a rate of 1 every block is chosen");
    check_distribution();
    check_repeats();
    return check_end();
}
