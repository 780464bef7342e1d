// Opening the guards behind blocks that stay in use.

#define _GNU_SOURCE
#include "pages/overread.h"

#include <time.h>

#include "blocks/span_table.h"
#include "pages/fence.h"
#include "pages/protect.h"
#include "platform/arch.h"
#include "platform/clock.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "settings/config.h"

// Blocks that were made lately, in a ring; what does not fit keeps its guard. Ages are counted in halves of overread_ms.
enum { YOUNG_MOST = 4096, HALVES = 2, VECTOR_BYTES = 64 };
#define NS_PER_HALF ((uint64_t)zg_config.overread_ms * 1000000 / HALVES)

static struct {
    uint32_t span;
    uint32_t half; // of the process's time, in which it was made
} young[YOUNG_MOST];
static struct zg_lock young_lock;
static uint64_t young_first, young_count;
static uint32_t now_half;
static uint64_t looked_ticks;
static bool is_on;

void zg_overread_init(void) { is_on = zg_config.overread_ms && zg_arch_has_masked_loads(); }

// A vector that begins in the block may reach the guard. What begins at a guard, with 0 bytes, is not to be touched at all.
static bool is_near_guard(const struct zg_span *span) {
    uint64_t guard = span->base + zg_fence_data_bytes(span);
    return span->size && guard - (span->start + span->size) < VECTOR_BYTES;
}

void zg_overread_note(const struct zg_span *span) {
    if (!is_on || !is_near_guard(span) || span->fenced != zg_protection_guards || !zg_lock_try(&young_lock)) return;
    if (young_count < YOUNG_MOST) {
        uint64_t at = (young_first + young_count) % YOUNG_MOST;
        zg_store(&young_count, young_count + 1);
        young[at].span = zg_span_number(span);
        young[at].half = now_half;
    }
    zg_lock_drop(&young_lock);
}

void zg_overread_look(void) {
    if (!is_on || !zg_load(&young_count)) return;
    uint64_t ticks = zg_arch_ticks();
    // The process's own clock is a system call: not asked before so much time has passed at all.
    if (ticks - zg_load(&looked_ticks) < zg_clock_ticks(NS_PER_HALF / 2)) return;
    zg_store(&looked_ticks, ticks);
    if (!zg_lock_try(&young_lock)) return;
    now_half = (uint32_t)(zg_os_clock_ns(CLOCK_PROCESS_CPUTIME_ID) / NS_PER_HALF);
    while (young_count && now_half - young[young_first].half > HALVES) {
        zg_fence_open_guard(zg_span_by_number(young[young_first].span));
        young_first = (young_first + 1) % YOUNG_MOST;
        zg_store(&young_count, young_count - 1);
    }
    zg_lock_drop(&young_lock);
}

void zg_overread_after_fork_in_child(void) { zg_lock_reset(&young_lock); }
