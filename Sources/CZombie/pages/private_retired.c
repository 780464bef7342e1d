// Keeps retired blocks with private pages: accesses to them fault until their address space, records or mappings are
// needed for other blocks.
// Slow path; under the lock of private pages, except zg_private_take_mappings, which takes the lock.

#include "pages/conditions.h"
#include "pages/private_state.h"
#include "pages/protect.h"
#include "platform/os.h"
#include "settings/stats.h"

static struct zg_queue_links retired_links(void) { return ZG_QUEUE_LINKS(zg_span_by_number(1), struct zg_span, next); }

void zg_private_add_retired(struct zg_span *span) {
    zg_queue_add(&zg_private.retired, retired_links(), zg_span_number(span));
    zg_private.retired.amount += span->units * ZG_PAGE_BYTES;
    zg_private.retired_count++;
}

// Takes the oldest retired block; the queue must not be empty. NULL if the program still uses that block after a
// finding, so that it must stay as it is. Under the lock.
static struct zg_span *take_oldest(void) {
    struct zg_span *span = zg_span_by_number(zg_queue_take(&zg_private.retired, retired_links()));
    uint64_t bytes = span->units * ZG_PAGE_BYTES;
    zg_private.retired.amount -= bytes;
    zg_private.retired_count--;
    zg_stats_add(zg_counter_retired_blocks, (uint64_t)-1);
    zg_stats_add(zg_counter_retired_bytes, -bytes);
    return span->block.header & ZG_HEADER_CONTENTS_RESTORED ? NULL : span;
}

// Makes the block's addresses reusable, unless its contents, and thus its mappings, could not be dropped. Under the
// lock.
static void reuse(struct zg_span *span) {
    if (span->dirty) return;
    if (zg_private_keeps_contents() && zg_private_has_data(span)) zg_mappings_give(2);
    __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_reusable), __ATOMIC_RELEASE);
    zg_private_give_range(span);
}

// Drops the kept contents of adjacent blocks, and the mappings that they cost, in one call. The range includes the
// guard pages between the blocks.
static void drop_contents(struct zg_span *const *spans, uint32_t count) {
    uint64_t from = spans[0]->base, bytes = zg_private_data_end(spans[count - 1]) - from;
    if (spans[0]->protection == zg_protection_mprotect) {
        // Include the last guard page: the range then merges with its neighbors into one inaccessible mapping.
        if (zg_os_retire((void *)from, bytes + ZG_PAGE_BYTES) != 0) return;
    } else if (zg_os_guard((void *)from, bytes) != 0 || zg_os_commit((void *)from, bytes) != 0) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) spans[i]->dirty = 0;
}

static bool are_neighbours(const struct zg_span *a, const struct zg_span *b) {
    return a->base + a->units * ZG_PAGE_BYTES == b->base && a->protection == b->protection;
}

// Makes the oldest blocks, at most `most`, reusable, and drops their kept contents. False if no block became reusable.
// Under the lock.
static bool reuse_oldest(uint64_t most) {
    struct zg_span *spans[ZG_POLICY_REUSED_AT_ONCE];
    uint32_t count = 0;
    for (uint64_t i = 0; i < zg_min(most, ZG_POLICY_REUSED_AT_ONCE) && zg_private.retired.oldest; i++) {
        struct zg_span *span = take_oldest();
        if (span) spans[count++] = span;
    }
    for (uint32_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && are_neighbours(spans[to - 1], spans[to]);) to++;
        drop_contents(spans + from, to - from);
    }
    for (uint32_t i = 0; i < count; i++) reuse(spans[i]);
    return count != 0;
}

void zg_private_keep_within_bounds(void) {
    struct zg_isolation_conditions conditions = zg_conditions_now();
    // Blocks of focused stacks should stay retired for long: retired_bytes is then the only bound, as if the user had
    // set it.
    bool is_given = zg_focus_is_on || !ZG_IS_DEFAULT(retired_bytes);
    uint64_t most = zg_policy_private_addresses_most(zg_config.retired_bytes, zg_isolated_map.units);
    uint64_t records_most = zg_policy_private_records_most(&conditions, is_given);
    while (zg_private.retired.oldest &&
           (zg_private.retired.amount > most || zg_private.retired_count * sizeof(struct zg_span) > records_most)) {
        if (zg_private_keeps_contents()) {
            reuse_oldest(1 + zg_private.retired_count / ZG_POLICY_REUSED_AT_ONCE);
            continue;
        }
        struct zg_span *span = take_oldest();
        if (span) reuse(span);
    }
}

bool zg_private_take_mappings(void) {
    while (zg_private_keeps_contents() && !zg_mappings_are_left(2)) {
        zg_lock_take(&zg_private.lock);
        bool is_some = reuse_oldest(ZG_POLICY_REUSED_AT_ONCE);
        zg_lock_drop(&zg_private.lock);
        if (!is_some) break;
    }
    return zg_mappings_take(2);
}
