// Opens the guard pages behind blocks that have been live for some time.
// Slow path; takes its own lock, and under it the lock of private pages.

#define _GNU_SOURCE
#include "pages/overread.h"

#include <time.h>

#include "blocks/span_table.h"
#include "pages/private_pages.h"
#include "pages/isolation_policy.h"
#include "pages/protect.h"
#include "platform/arch.h"
#include "platform/clock.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "settings/config.h"

// Ages of blocks are counted in steps of the process's processor time. overread_ms consists of ZG_POLICY_AGE_STEPS
// steps.
#define NS_PER_STEP ((uint64_t)zg_config.overread_ms * 1000000 / ZG_POLICY_AGE_STEPS)

// Ring of young blocks. If it is full, further blocks keep their guard page.
static struct {
    uint32_t span;
    uint32_t step; // step in which the block was made
} young[ZG_POLICY_YOUNG_BLOCKS_MOST];
static struct zg_lock young_lock;
static uint64_t young_first, young_count;
static uint32_t now_step;
static uint64_t looked_ticks;
static bool is_on;

void zg_overread_init(void) { is_on = zg_config.overread_ms && zg_arch_has_masked_loads(); }

// Returns true if a vector load that begins in the block may reach its guard page. A block of 0 bytes is never read.
static bool is_near_guard(const struct zg_span *span) {
    uint64_t guard = span->base + zg_private_data_bytes(span);
    return span->size && zg_policy_is_near_guard(guard - (span->start + span->size));
}

void zg_overread_note(const struct zg_span *span) {
    if (!is_on || !is_near_guard(span) || span->protection != zg_protection_guards || !zg_lock_try(&young_lock)) return;
    if (young_count < ZG_POLICY_YOUNG_BLOCKS_MOST) {
        uint64_t at = (young_first + young_count) % ZG_POLICY_YOUNG_BLOCKS_MOST;
        zg_store(&young_count, young_count + 1);
        young[at].span = zg_span_number(span);
        young[at].step = now_step;
    }
    zg_lock_drop(&young_lock);
}

void zg_overread_look(void) {
    if (!is_on || !zg_load(&young_count)) return;
    uint64_t ticks = zg_arch_ticks();
    // Reading the process's clock is a system call, so first check by the processor's clock that half a step has
    // passed.
    if (ticks - zg_load(&looked_ticks) < zg_clock_ticks(NS_PER_STEP / 2)) return;
    zg_store(&looked_ticks, ticks);
    if (!zg_lock_try(&young_lock)) return;
    now_step = (uint32_t)(zg_os_clock_ns(CLOCK_PROCESS_CPUTIME_ID) / NS_PER_STEP);
    while (young_count && zg_policy_opens_guard(now_step, young[young_first].step)) {
        zg_private_open_guard(zg_span_by_number(young[young_first].span));
        young_first = (young_first + 1) % ZG_POLICY_YOUNG_BLOCKS_MOST;
        zg_store(&young_count, young_count - 1);
    }
    zg_lock_drop(&young_lock);
}

void zg_overread_after_fork_in_child(void) { zg_lock_reset(&young_lock); }
