// The budget of processor time for new stacks. Slow path; no lock.

#include "stacks/stack_time.h"

#include "platform/clock.h"

#define START_NS INT64_C(10000000)  // before any share counts
#define KEPT_NS INT64_C(64000000)   // of income that nobody spent, at the most
#define PERIOD_NS INT64_C(4000000)  // of processor time between two steps
#define RETURN_NS INT64_C(10000000) // what must be left over for a step back, the first time
#define WANTED_MOST_NS INT64_C(10000000000)
#define TRY_NS INT64_C(256000000)      // a step back that does not last so long proves wrong
#define REFRESH_NS UINT64_C(1000000)   // between two looks at the process's clock
#define CLOCK_NS UINT64_C(20)          // what looking at the clock takes of what it tells
#define STACK_MOST_NS UINT64_C(10000)  // of one: a thread that was put aside meanwhile did not spend the time
#define LOOK_MOST_NS UINT64_C(1000000) // the same of a look at the clock
// In a process with thousands of threads a look adds up the times of them all: it may take one part in so many.
enum { LOOKS_SHARE = 256 };

uint64_t zg_stack_time_step;
// What stacks must take before a step is left for the next one, as multiples of the share: a few frames say much more than one.
static const uint8_t excess[ZG_STACK_TIME_STEPS] = {1, 1, 1, 2, 3, 4};
static uint64_t spent_ns, refreshed_ticks, look_ticks;

// As of the last period's end. Only who has moved refreshed_ticks writes these.
static struct {
    int64_t processor_ns, spent_ns;
    int64_t left_ns;     // income less what was spent
    int64_t wanted_ns;   // of that, for a step back
    int64_t returned_ns; // when that was last done; 0: never, or it has proved wrong
} period = {.left_ns = START_NS, .wanted_ns = RETURN_NS};

static void end_period(int64_t processor_ns) {
    int64_t elapsed = processor_ns - period.processor_ns, spent = (int64_t)zg_load(&spent_ns);
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
    __atomic_fetch_add(&spent_ns, (ns - zg_min(ns, CLOCK_NS)) * stacks, __ATOMIC_RELAXED);
    if (ticks - last < zg_max(zg_clock_ticks(REFRESH_NS), zg_load(&look_ticks) * LOOKS_SHARE) ||
        !__atomic_compare_exchange_n(&refreshed_ticks, &last, ticks, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    uint64_t processor_ns = zg_clock_process_ns();
    zg_store(&look_ticks, zg_min(zg_arch_ticks() - ticks, zg_clock_ticks(LOOK_MOST_NS)));
    end_period((int64_t)processor_ns);
}
