// Retires runs of slots, makes them empty, and opens empty runs.
// Slow path; under the lock of retired runs, except functions that say otherwise.

#include "pages/runs.h"

#include "blocks/lookup.h"
#include "blocks/tags.h"
#include "pages/conditions.h"
#include "pages/protect.h"
#include "pages/retire.h"
#include "platform/os.h"
#include "pressure/pressure.h"
#include "settings/config.h"
#include "settings/bypass.h"
#include "settings/stats.h"

struct zg_runs zg_runs;

static struct zg_queue_links links_of(uint32_t class) {
    return ZG_QUEUE_LINKS(zg_runs.runs[class], struct zg_run, next);
}

bool zg_runs_may_be_retired(void) {
    return zg_config.retired_bytes && !zg_protection_is_stopped() && zg_config.on_finding != zg_on_finding_continue;
}

struct zg_run *zg_run_make(uint32_t class, uint64_t number) {
    uint64_t committed = zg_runs.committed[class];
    if (ZG_LIKELY(number < committed)) return zg_run_by_number(class, number);
    // Round `limit` up to whole pages, not to whole steps: a small region has fewer runs than one step.
    enum { RUNS_OF_PAGE = ZG_PAGE_BYTES / sizeof(struct zg_run), STEP = 4 * RUNS_OF_PAGE };
    uint64_t limit = zg_round_up((UINT64_C(1) << zg_slabs.region_shift >> ZG_RUN_SHIFT) + 1, RUNS_OF_PAGE);
    // Set when the program's limits refused the table, so that it is not requested again at each free.
    static bool is_refused;
    if (!zg_runs.runs[class] && !(zg_bypass_may_fail && __atomic_load_n(&is_refused, __ATOMIC_RELAXED))) {
        zg_runs.runs[class] = zg_os_reserve(limit * sizeof(struct zg_run));
        __atomic_store_n(&is_refused, !zg_runs.runs[class], __ATOMIC_RELAXED);
    }
    if (!zg_runs.runs[class] || number >= limit) return NULL;
    uint64_t step = zg_min(zg_round_up(number + 1 - committed, STEP), limit - committed);
    if (zg_os_commit(zg_runs.runs[class] + committed, step * sizeof(struct zg_run)) != 0) return NULL;
    zg_store(&zg_runs.committed[class], committed + step);
    return zg_run_by_number(class, number);
}

bool zg_run_is_complete(uint32_t class, uint64_t number) {
    const struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t end = zg_run_first_slot(slab, number + 1);
    return end <= __atomic_load_n(&slab->used, __ATOMIC_RELAXED) &&
           zg_run_by_number(class, number)->dead == end - zg_run_first_slot(slab, number);
}

void zg_runs_count_retired(struct zg_slab *slab, int64_t slots) {
    uint64_t bytes = (uint64_t)(slots * (int64_t)slab->slot_bytes);
    zg_runs.retired_slots += (uint64_t)slots;
    zg_store(&zg_runs.retired_bytes, zg_runs.retired_bytes + bytes);
    zg_stats_add(zg_counter_retired_blocks, (uint64_t)slots);
    zg_stats_add(zg_counter_retired_bytes, bytes);
}

// --- retiring -------------------------------------------------------------------------------------------------------

static bool is_protected(uint32_t class, uint64_t number) {
    return number < zg_runs.committed[class] && zg_run_by_number(class, number)->protection;
}

void zg_runs_pages(uint32_t class, uint64_t from, uint64_t to, uint64_t *low, uint64_t *high) {
    const struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t start = zg_slab_slot_address(slab, zg_run_first_slot(slab, from));
    uint64_t end = zg_slab_slot_address(slab, zg_run_first_slot(slab, to));
    *low = from && is_protected(class, from - 1) ? start & ~(ZG_PAGE_BYTES - 1) : zg_round_up(start, ZG_PAGE_BYTES);
    *high = is_protected(class, to) ? zg_round_up(end, ZG_PAGE_BYTES) : end & ~(ZG_PAGE_BYTES - 1);
}

uint64_t zg_runs_retire(uint32_t class, uint64_t from, uint64_t to) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t low, high;
    zg_runs_pages(class, from, to, &low, &high);
    enum zg_protection protection = low < high ? zg_protect((void *)low, high - low) : zg_protection_none;
    if (protection == zg_protection_none) return 0;
    int64_t count = 0;
    for (uint64_t i = zg_run_first_slot(slab, from), end = zg_run_first_slot(slab, to); i < end; i++) {
        if (zg_slot_state(slab, i) != zg_state_held) continue; // retired before, with a single page
        zg_slot_set_state(&slab->blocks[i], zg_state_retired);
        count++;
    }
    zg_runs_count_retired(slab, count);
    for (uint64_t number = from; number < to; number++) {
        struct zg_run *run = zg_run_by_number(class, number);
        run->protection = (uint8_t)protection;
        run->counted = number + 1 == to;
        zg_queue_add(&zg_runs.retired[class], links_of(class), (uint32_t)number + 1);
    }
    return high - low;
}

void zg_run_free_slots(uint32_t class, uint64_t number, enum zg_state state) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t slots[ZG_POLICY_RELEASED_AT_ONCE], count = 0;
    // In the last run, the records of slots that were never used may be inaccessible.
    uint64_t to = zg_min(zg_run_first_slot(slab, number + 1), __atomic_load_n(&slab->used, __ATOMIC_RELAXED));
    for (uint64_t i = zg_run_first_slot(slab, number); i < to; i++) {
        if (zg_slot_state(slab, i) != state || slab->blocks[i].header & ZG_HEADER_CONTENTS_RESTORED) continue;
        zg_slot_set_state(&slab->blocks[i], zg_state_reusable);
        zg_run_by_number(class, number)->dead--;
        slots[count++] = (uint32_t)i;
        if (count == ZG_POLICY_RELEASED_AT_ONCE) zg_slab_release(class, slots, count), count = 0;
    }
    if (count) zg_slab_release(class, slots, count);
}

// --- empty runs -----------------------------------------------------------------------------------------------------

// A table with one entry for each slot of a class.
struct entries {
    const struct zg_slab *slab;
    uint32_t class;
    void *table;
    uint64_t bytes; // size of an entry
};

// Returns true if all slots from `first` to `end` belong to empty runs.
static bool are_empty(struct entries entries, uint64_t first, uint64_t end) {
    for (uint64_t number = zg_run_of(entries.slab, first); number <= zg_run_of(entries.slab, end - 1); number++)
        if (number >= zg_runs.committed[entries.class] || !zg_run_by_number(entries.class, number)->empty) return false;
    return true;
}

// Zeroes the entries of slots [from, to). Pages of the table without other entries are released. A page that also has
// entries of slots from `used` on is not released, because these slots are allocated without the lock.
static void clear_entries(struct entries entries, uint64_t from, uint64_t to) {
    uint64_t base = (uint64_t)entries.table, start = base + from * entries.bytes, end = base + to * entries.bytes;
    uint64_t low = start & ~(ZG_PAGE_BYTES - 1), high = zg_round_up(end, ZG_PAGE_BYTES);
    uint64_t first = (low - base) / entries.bytes, last = (high - base) / entries.bytes;
    if (first < from && !are_empty(entries, first, from)) low += ZG_PAGE_BYTES;
    if (last > to && (last > __atomic_load_n(&entries.slab->used, __ATOMIC_RELAXED) || !are_empty(entries, to, last)))
        high -= ZG_PAGE_BYTES;
    if (low >= high || zg_os_discard((void *)low, high - low) != 0) low = high = end;
    if (start < low) __builtin_memset((void *)start, 0, low - start);
    if (high < end) __builtin_memset((void *)high, 0, end - high);
}

void zg_run_make_empty(uint32_t class, uint64_t number) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    struct zg_run *run = zg_run_by_number(class, number);
    uint64_t from = zg_run_first_slot(slab, number), to = zg_run_first_slot(slab, number + 1);
    clear_entries((struct entries){slab, class, slab->blocks, sizeof(struct zg_block)}, from, to);
    if (zg_slab_has_deaths(slab))
        clear_entries((struct entries){slab, class, slab->deaths, sizeof(struct zg_death)}, from, to);
    run->dead = 0;
    run->empty = run->forgotten = 1;
    zg_store(&zg_runs.empty_bytes, zg_runs.empty_bytes + (to - from) * slab->slot_bytes);
    zg_queue_add(&zg_runs.empty[class], links_of(class), (uint32_t)number + 1);
}

// Turns the oldest retired run of the class into an empty run (runs.h), so that its slots can be allocated again. Its
// guard pages stay. Pages protected by mprotect become accessible, because their protection costs mappings. False if
// the class has no retired run.
static bool empty_oldest(uint32_t class) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t taken = zg_queue_take(&zg_runs.retired[class], links_of(class));
    if (!taken) return false;
    uint64_t number = taken - UINT64_C(1);
    struct zg_run *run = zg_run_by_number(class, number);
    uint64_t from = zg_run_first_slot(slab, number), to = zg_run_first_slot(slab, number + 1);
    zg_runs_count_retired(slab, -(int64_t)(to - from));
    if (run->protection == zg_protection_mprotect) {
        // Also opens pages that the run shares with retired neighbors. No slot in these pages is used, but accesses to
        // the neighbors' parts are not detected any more.
        uint64_t low = zg_slab_slot_address(slab, from) & ~(ZG_PAGE_BYTES - 1);
        uint64_t high = zg_round_up(zg_slab_slot_address(slab, to), ZG_PAGE_BYTES);
        // Never use the run again.
        if (!zg_unprotect((void *)low, high - low, zg_protection_mprotect)) return true;
        if (run->counted) zg_mappings_give(2);
        run->protection = zg_protection_none;
    }
    zg_run_make_empty(class, number);
    return true;
}

static void clear_memory(uint64_t from, uint64_t to) {
    uint64_t at = from;
    // A read allocates no memory for the page.
    while (at < to && !*(const uint64_t *)at) at += sizeof(uint64_t);
    if (at < to) __builtin_memset((void *)at, 0, to - at);
}

// Makes the pages of an empty run accessible. False if the kernel refuses.
static bool open_run(uint32_t class, uint64_t number) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    struct zg_run *run = zg_run_by_number(class, number);
    uint64_t start = zg_slab_slot_address(slab, zg_run_first_slot(slab, number));
    uint64_t end = zg_slab_slot_address(slab, zg_run_first_slot(slab, number + 1));
    uint64_t low = start & ~(ZG_PAGE_BYTES - 1), high = zg_round_up(end, ZG_PAGE_BYTES);
    enum zg_protection protection = run->protection              ? (enum zg_protection)run->protection
                                    : zg_protection_had_guards() ? zg_protection_guards
                                                                 : zg_protection_none;
    zg_store(&zg_runs.empty_bytes, zg_runs.empty_bytes - (end - start));
    // Also opens pages that the run shares with protected neighbors. No slot in these pages is used.
    if (protection != zg_protection_none && !zg_unprotect((void *)low, high - low, protection)) return false;
    run->protection = zg_protection_none;
    run->empty = 0;
    run->guarded = 0;
    // The run's parts of shared pages may contain the fill.
    clear_memory(start, zg_min(low == start ? start : low + ZG_PAGE_BYTES, end));
    clear_memory(zg_max(high == end ? end : high - ZG_PAGE_BYTES, start), end);
    zg_pressure_note_taken(high - low);
    return true;
}

// Opens the oldest empty run of the class: its slots are allocated next. False if there is none.
static bool open_oldest(uint32_t class) {
    const struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t taken;
    while ((taken = zg_queue_take(&zg_runs.empty[class], links_of(class))) != 0) {
        // Never use the run again.
        if (!open_run(class, taken - UINT64_C(1))) continue;
        zg_slab_recycle(class, zg_run_first_slot(slab, taken - UINT64_C(1)), zg_run_first_slot(slab, taken));
        return true;
    }
    return false;
}

static bool are_too_many(void) {
    struct zg_isolation_conditions conditions = zg_conditions_now();
    uint64_t record_bytes = zg_runs.retired_slots * (sizeof(struct zg_block) + sizeof(struct zg_death));
    return zg_policy_retired_are_too_many(&conditions, zg_runs.retired_bytes, zg_config.retired_bytes, record_bytes,
                                          zg_runs.was_trimmed);
}

void zg_runs_keep_within_bounds(void) {
    uint32_t *class = &zg_runs.next_class;
    for (uint32_t idle = 0; idle < ZG_CLASS_COUNT && are_too_many(); *class = (*class + 1) % ZG_CLASS_COUNT)
        idle = empty_oldest(*class) ? 0 : idle + 1;
}

// --- interface for other files: takes the lock, or needs none -------------------------------------------------------

bool zg_retire_open(uint32_t class) {
    if (!__atomic_load_n(&zg_runs.empty[class].oldest, __ATOMIC_RELAXED)) return false;
    zg_lock_take(&zg_runs.lock);
    bool done = open_oldest(class);
    zg_lock_drop(&zg_runs.lock);
    return done;
}

bool zg_retire_reuse(uint32_t class) {
    zg_lock_take(&zg_runs.lock);
    bool done = open_oldest(class) || (empty_oldest(class) && open_oldest(class));
    zg_lock_drop(&zg_runs.lock);
    return done;
}

uint64_t zg_retire_bytes(void) { return zg_load(&zg_runs.retired_bytes) + zg_load(&zg_runs.empty_bytes); }

bool zg_retire_is_forgotten(uint64_t pointer) {
    struct zg_block_view view;
    uint64_t address = zg_arch_address(pointer);
    if (!zg_slab_contains(address) || zg_lookup_block(pointer, &view)) return false;
    if (zg_tags_are_on() && zg_tags_is_stale(pointer)) return true;
    uint64_t index, interior;
    const struct zg_slab *slab = zg_slab_find(address, &index, &interior);
    uint32_t class = (uint32_t)(slab - zg_slabs.slab), number = zg_run_of(slab, index);
    return index < zg_load(&slab->used) && number < zg_load(&zg_runs.committed[class]) &&
           zg_run_by_number(class, number)->forgotten;
}

void zg_retire_lock(void) { zg_lock_take(&zg_runs.lock); }
void zg_retire_unlock(bool reset) {
    if (reset) zg_lock_reset(&zg_runs.lock);
    else zg_lock_drop(&zg_runs.lock);
}

#ifdef ZG_CHECK_INVARIANTS
// Counts of the invariant check, for one class.
struct count {
    uint64_t slots, bytes;       // numbers of retired slots, and of the bytes of these slots
    uint64_t protected, emptied; // numbers of retired and of empty runs
};

static const char *broken_run(uint32_t class, uint64_t number, struct count *count) {
    const struct zg_slab *slab = &zg_slabs.slab[class];
    const struct zg_run *run = zg_run_by_number(class, number);
    uint64_t dead = 0, retired = 0, from = zg_run_first_slot(slab, number), end = zg_run_first_slot(slab, number + 1),
             to = zg_min(end, slab->used);
    for (uint64_t i = from; i < to; i++) {
        dead += zg_slot_state(slab, i) == zg_state_held || zg_slot_state(slab, i) == zg_state_retired;
        retired += zg_slot_state(slab, i) == zg_state_retired;
    }
    count->protected += run->protection != zg_protection_none && !run->empty;
    count->emptied += run->empty;
    count->slots += retired;
    count->bytes += retired * slab->slot_bytes;
    if (dead != run->dead) return "a run has another number of dead slots than it counts";
    if (run->protection && !run->empty && (retired != to - from || to != end))
        return "a slot of a retired run is not retired";
    return NULL;
}

static const char *broken_retired_queue(uint32_t class, const struct count *count) {
    uint64_t queued = 0;
    uint32_t last = 0;
    for (uint32_t number = zg_runs.retired[class].oldest; number && queued <= count->protected;
         number = zg_run_by_number(class, number - 1)->next) {
        const struct zg_run *run = zg_run_by_number(class, number - 1);
        if (!run->protection || run->empty) return "a run that is not retired is in the queue of retired runs";
        queued++, last = number;
    }
    bool is_valid = queued == count->protected && last == zg_runs.retired[class].newest;
    return is_valid ? NULL : "the queue of retired runs lacks some of them";
}

static const char *broken_empty_queue(uint32_t class, const struct count *count,
                                      void (*see)(uint32_t class, uint64_t index)) {
    const struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t queued = 0;
    uint32_t last = 0;
    for (uint32_t number = zg_runs.empty[class].oldest; number && queued <= count->emptied;
         number = zg_run_by_number(class, number - 1)->next) {
        if (!zg_run_by_number(class, number - 1)->empty) return "a run that is not empty is in the queue of empty runs";
        for (uint64_t i = zg_run_first_slot(slab, number - 1); i < zg_run_first_slot(slab, number); i++) {
            if (zg_slot_state(slab, i) != zg_state_fresh) return "a slot of an empty run is not fresh";
            see(class, i);
        }
        queued++, last = number;
    }
    bool is_valid = queued == count->emptied && last == zg_runs.empty[class].newest;
    return is_valid ? NULL : "the queue of empty runs lacks some of them";
}

const char *zg_retire_broken(void (*see)(uint32_t class, uint64_t index)) {
    struct count all = {0};
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        struct count count = {0};
        const char *broken = NULL;
        for (uint64_t number = 0; number < zg_runs.committed[class] && !broken; number++)
            broken = broken_run(class, number, &count);
        if (!broken) broken = broken_retired_queue(class, &count);
        if (!broken) broken = broken_empty_queue(class, &count, see);
        if (broken) return broken;
        all.slots += count.slots;
        all.bytes += count.bytes;
    }
    bool is_valid = all.slots == zg_runs.retired_slots && all.bytes == zg_runs.retired_bytes;
    return is_valid ? NULL : "another number of slots is retired than is counted";
}
#endif
