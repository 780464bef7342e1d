// Limits the processor time that recording new stacks takes. Slow path; no lock.

#include "stacks/stack_time.h"

#include "platform/clock.h"

#define START_NS INT64_C(10000000)  // credit at the start, so that small programs are recorded whole
#define KEPT_NS INT64_C(64000000)   // limit of the credit, in addition to twice `wanted_ns`
#define PERIOD_NS INT64_C(4000000)  // processor time between two steps
#define RETURN_NS INT64_C(10000000) // credit that the first step back (to more frames) requires
#define WANTED_MOST_NS INT64_C(10000000000)
#define TRY_NS INT64_C(256000000)      // a step back that is undone within this time has failed
#define REFRESH_NS UINT64_C(1000000)   // time between two readings of the process's clock
#define CLOCK_NS UINT64_C(20)          // estimate of the time that reading the clock takes, part of each measured time
#define STACK_MOST_NS UINT64_C(10000)  // limit for one stack: a thread that was preempted did not spend the time
#define LOOK_MOST_NS UINT64_C(1000000) // limit for one reading of the process's clock
// Reading the process's clock adds up the times of all threads, which may be thousands. These readings may take one
// part in LOOKS_SHARE of the time.
enum { LOOKS_SHARE = 256 };
// A new stack costs this many times the measured time, because it displaces cache lines that the program then has to
// load again. Without new stacks, cc1 saves 1.5 to 1.7 times the measured time (docs/design/040-speed-of-new-code.md).
enum { CHARGED_TIMES = 2 };

uint64_t zg_stack_time_step;
// Leaving step N for step N + 1 requires that stacks cost more than excess[N] times the share. The factor is higher at
// the last steps, because a stack of a few frames is much more useful than a stack of one.
static const uint8_t excess[ZG_STACK_TIME_STEPS] = {1, 1, 1, 2, 3, 4};
static uint64_t stacks_ns, refreshed_ticks, look_ticks;

// State at the end of the last period. Written only by the thread that has advanced refreshed_ticks.
static struct {
    int64_t processor_ns, spent_ns;
    int64_t left_ns;     // credit: allowed time minus spent time
    int64_t wanted_ns;   // credit that a step back requires
    int64_t returned_ns; // processor time at the last step back; 0: none since the last step to fewer frames
} period = {.left_ns = START_NS, .wanted_ns = RETURN_NS};

static void end_period(int64_t processor_ns) {
    int64_t elapsed = processor_ns - period.processor_ns, spent = (int64_t)zg_load(&stacks_ns);
    if (elapsed < PERIOD_NS) return;
    int64_t income = elapsed / 1000 * zg_config.stack_overhead, cost = spent - period.spent_ns;
    int64_t left = period.left_ns + income - cost, most = KEPT_NS + 2 * period.wanted_ns;
    period.left_ns = left < most ? left : most;
    period.processor_ns = processor_ns;
    period.spent_ns = spent;
    uint64_t step = zg_load(&zg_stack_time_step);
    bool tries = period.returned_ns && processor_ns - period.returned_ns < TRY_NS;
    if (left < 0 && step < ZG_STACK_TIME_STEPS && cost > income * excess[step]) {
        zg_store(&zg_stack_time_step, step + 1);
        if (tries && period.wanted_ns < WANTED_MOST_NS) period.wanted_ns *= 2;
        period.returned_ns = 0;
    } else if (step && !tries && left > period.wanted_ns) {
        zg_store(&zg_stack_time_step, step - 1);
        period.returned_ns = processor_ns;
    }
}

void zg_stack_time_spent(uint64_t since, uint64_t stacks) {
    uint64_t ticks = zg_arch_ticks(), last = zg_load(&refreshed_ticks);
    uint64_t ns = zg_min(zg_clock_ns(ticks - since), STACK_MOST_NS);
    __atomic_fetch_add(&stacks_ns, CHARGED_TIMES * (ns - zg_min(ns, CLOCK_NS)) * stacks, __ATOMIC_RELAXED);
    if (ticks - last < zg_max(zg_clock_ticks(REFRESH_NS), zg_load(&look_ticks) * LOOKS_SHARE) ||
        !__atomic_compare_exchange_n(&refreshed_ticks, &last, ticks, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    uint64_t processor_ns = zg_clock_process_ns();
    zg_store(&look_ticks, zg_min(zg_arch_ticks() - ticks, zg_clock_ticks(LOOK_MOST_NS)));
    end_period((int64_t)processor_ns);
}
