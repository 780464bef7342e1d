// Records the memory of blocks that the program has locked (mlock), as sorted ranges of bytes in live blocks. A page
// stays locked while it overlaps a recorded range.
// Slow path; one lock, under which no other is taken.

#include "pages/locked.h"

#include "blocks/lookup.h"
#include "pages/isolation_policy.h"
#include "platform/lock.h"
#include "platform/os.h"

// Ranges beyond this number are not recorded, and their pages stay locked. Only a program without a practical
// RLIMIT_MEMLOCK can lock so many ranges.
enum { RANGES_MOST = ZG_POLICY_LOCKED_RANGES_MOST };

struct range {
    uint64_t start, end;
};

uint32_t zg_locked_count;
// Array of `zg_locked_count` ranges, sorted and disjoint. Mapped when the first range is added.
static struct range *ranges;
static struct zg_lock lock;

// Returns the index of the first range that ends behind the address.
static uint32_t first_behind(uint64_t address) {
    uint32_t low = 0, high = zg_locked_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (ranges[middle].end > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

// Replaces `removed` ranges from index `at` on by the `count` ranges in `added`, at most two.
static void replace(uint32_t at, uint32_t removed, const struct range *added, uint32_t count) {
    uint32_t rest = zg_locked_count - at - removed;
    __builtin_memmove(ranges + at + count, ranges + at + removed, rest * sizeof *ranges);
    for (uint32_t i = 0; i < count; i++) ranges[at + i] = added[i];
    __atomic_store_n(&zg_locked_count, at + count + rest, __ATOMIC_RELAXED);
}

// Removes [start, end) from the ranges. Returns the smallest range that holds all removed bytes; an empty one if none
// was removed.
static struct range cut(uint64_t start, uint64_t end) {
    struct range kept[2], part = {start, start};
    uint32_t count = 0, at = first_behind(start), next = at;
    for (; next < zg_locked_count && ranges[next].start < end; next++) {
        struct range range = ranges[next];
        if (next == at) part.start = zg_max(range.start, start);
        part.end = zg_min(range.end, end);
        if (range.start < start) kept[count++] = (struct range){range.start, start};
        if (range.end > end && zg_locked_count + count < RANGES_MOST) kept[count++] = (struct range){end, range.end};
    }
    if (next > at) replace(at, next - at, kept, count);
    return part;
}

static void add(uint64_t start, uint64_t end) {
    if (!ranges) ranges = zg_os_map(RANGES_MOST * sizeof *ranges);
    if (!ranges) return;
    cut(start, end);
    struct range range = {start, end};
    if (zg_locked_count < RANGES_MOST) replace(first_behind(start), 0, &range, 1);
}

static bool is_locked_page(uint64_t page) {
    uint32_t at = first_behind(page);
    return at < zg_locked_count && ranges[at].start < page + ZG_PAGE_BYTES;
}

// Unlocks the pages of [start, end). Only the first and the last page may hold other locked blocks; these stay locked.
static void unlock(uint64_t start, uint64_t end) {
    struct range part = cut(start, end);
    if (part.start == part.end) return;
    uint64_t low = part.start & ~(ZG_PAGE_BYTES - 1), high = zg_round_up(part.end, ZG_PAGE_BYTES);
    if (is_locked_page(low)) low += ZG_PAGE_BYTES;
    if (low < high && is_locked_page(high - ZG_PAGE_BYTES)) high -= ZG_PAGE_BYTES;
    if (low < high) zg_os_unlock((void *)low, high - low);
}

void zg_locked_add(uint64_t start, uint64_t end) {
    enum { SLOTS_BEGIN_AT = 8 };
    struct zg_block_view view;
    zg_lock_take(&lock);
    if (zg_lookup_is_foreign(start)) {
        add(start, end);
        start = end;
    }
    for (uint64_t at = start; at < end;) {
        bool is_block = zg_lookup_block(at, &view) && view.start <= at && at < view.start + view.size;
        uint64_t next = is_block ? zg_min(view.start + view.size, end) : at + 1;
        if (is_block && view.state == zg_state_live) add(at, next);
        at = zg_round_up(next, SLOTS_BEGIN_AT);
    }
    zg_lock_drop(&lock);
}

void zg_locked_remove(uint64_t start, uint64_t end) {
    zg_lock_take(&lock);
    cut(start & ~(ZG_PAGE_BYTES - 1), zg_round_up(end, ZG_PAGE_BYTES));
    zg_lock_drop(&lock);
}

void zg_locked_died(uint64_t start, uint64_t end) {
    zg_lock_take(&lock);
    unlock(start, end);
    zg_lock_drop(&lock);
}

void zg_locked_moved(uint64_t from, uint64_t to, uint64_t bytes) {
    zg_lock_take(&lock);
    struct range part = cut(from, from + bytes);
    if (part.start < part.end) add(part.start - from + to, part.end - from + to);
    zg_lock_drop(&lock);
}

void zg_locked_sweep(void) {
    struct zg_block_view view;
    zg_lock_take(&lock);
    for (uint32_t at = 0; at < zg_locked_count;) {
        struct range range = ranges[at];
        bool is_live =
            zg_lookup_is_foreign(range.start) || (zg_lookup_block(range.start, &view) && view.state == zg_state_live);
        if (!is_live) unlock(range.start, range.end);
        at += is_live;
    }
    zg_lock_drop(&lock);
}

void zg_locked_forget(bool is_child) {
    if (is_child) zg_lock_reset(&lock);
    zg_lock_take(&lock);
    __atomic_store_n(&zg_locked_count, 0, __ATOMIC_RELAXED);
    zg_lock_drop(&lock);
}
