// Retiring pages of the slab heap.

#include "pages/retire.h"

#include "blocks/lookup.h"
#include "blocks/tags.h"
#include "pages/page_time.h"
#include "pages/protect.h"
#include "platform/arch.h"
#include "platform/clock.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "pressure/pressure.h"
#include "settings/config.h"
#include "settings/bypass.h"
#include "settings/stats.h"

enum { RUN_SHIFT = 16, TOUCHED_MOST = 256, BUFFER_SLOTS = 32 };
#define RUN_BYTES (UINT64_C(1) << RUN_SHIFT)
// A phase ends when this much is held: it is missing in the caches, and in the program's memory.
#define HOLD_MOST ((uint64_t)1 << 20)
// Records of retired slots may take this share of what is in use, and this much in any case; what was retired to give memory
// back may have twice as many.
#define RECORDS_LEAST ((uint64_t)2 << 20)
#define RECORDS_SHIFT 6
#define BACKOFF_LEAST_NS UINT64_C(1000000)
#define BACKOFF_MOST_NS UINT64_C(2000000000)

// A run is the slots that begin in it. Invariants: 1. dead counts the slots in state held or retired. 2. It is empty, or all of
// it is retired and protected, or neither. 3. The slots of an empty run are fresh.
struct run {
    uint16_t dead;
    uint8_t protection;  // enum zg_protection of its pages
    uint8_t touched : 1, // by the phase that goes on
        empty : 1,
        counted : 1,   // of the runs that were protected together the last one stands for the mappings that it cost
        forgotten : 1; // was empty once: slots that are fresh had blocks
    union {
        uint32_t next; // in the queue of retired or of empty runs: number + 1, 0 ends it
        uint32_t
            guarded; // in neither queue: a bit for each page that was protected by itself, and is until the run is retired
    };
};

// Runs of a class, number + 1; oldest is looked at without the lock, too.
struct queue {
    uint32_t oldest, newest;
};

static struct zg_lock retire_lock;
static struct run *runs[ZG_CLASS_COUNT]; // of each class, made accessible as far as they are used
static uint64_t runs_committed[ZG_CLASS_COUNT];
static struct queue retired[ZG_CLASS_COUNT], empty[ZG_CLASS_COUNT];
static uint64_t retired_bytes, retired_slots, empty_bytes;
static bool has_forced;     // memory was given back on request
static uint32_t next_class; // whose oldest run is used again next

// The thread that retires all there is, and holds the lock meanwhile.
static const struct zg_thread *forced_by;
static bool is_forced(void) { return __atomic_load_n(&forced_by, __ATOMIC_RELAXED) != NULL; }
// The phase.
static struct {
    bool active;  // looked at without the lock, too
    bool is_full; // more runs than it can keep in mind
    uint64_t held_bytes, wait_until_ticks, backoff_ns;
    uint32_t touched_count, retired_count;
    uint32_t touched[TOUCHED_MOST]; // class << 20 | run
} phase = {.backoff_ns = BACKOFF_LEAST_NS};

static uint32_t run_of(const struct zg_slab *slab, uint64_t index) {
    return (uint32_t)(index * slab->slot_bytes >> RUN_SHIFT);
}
// First slot of a run; that of the next one ends it.
static uint64_t first_slot(const struct zg_slab *slab, uint64_t run) {
    return ((run << RUN_SHIFT) + slab->slot_bytes - 1) / slab->slot_bytes;
}

static struct run *run_at(uint32_t class, uint64_t number) {
    if (ZG_LIKELY(number < runs_committed[class])) return &runs[class][number];
    // Whole pages; a small region's runs do not fill a step.
    uint64_t limit =
        zg_round_up((UINT64_C(1) << zg_slabs.region_shift >> RUN_SHIFT) + 1, ZG_PAGE_BYTES / sizeof(struct run));
    static bool is_refused; // by a limit of the program's: each free would ask again
    if (!runs[class] && !(zg_bypass_may_fail && __atomic_load_n(&is_refused, __ATOMIC_RELAXED))) {
        runs[class] = zg_os_reserve(limit * sizeof(struct run));
        __atomic_store_n(&is_refused, !runs[class], __ATOMIC_RELAXED);
    }
    if (!runs[class] || number >= limit) return NULL;
    enum { STEP = ZG_PAGE_BYTES / sizeof(struct run) * 4 };
    uint64_t step = zg_min(zg_round_up(number + 1 - runs_committed[class], STEP), limit - runs_committed[class]);
    if (zg_os_commit(runs[class] + runs_committed[class], step * sizeof(struct run)) != 0) return NULL;
    zg_store(&runs_committed[class], runs_committed[class] + step); // looked at without the lock, too
    return &runs[class][number];
}

static void enqueue(struct queue *queue, uint32_t class, uint64_t number) {
    runs[class][number].next = 0;
    if (queue->oldest) runs[class][queue->newest - 1].next = (uint32_t)number + 1;
    else __atomic_store_n(&queue->oldest, (uint32_t)number + 1, __ATOMIC_RELAXED);
    queue->newest = (uint32_t)number + 1;
}

// False where there is none.
static bool dequeue(struct queue *queue, uint32_t class, uint64_t *number) {
    if (!queue->oldest) return false;
    *number = queue->oldest - UINT64_C(1);
    __atomic_store_n(&queue->oldest, runs[class][*number].next, __ATOMIC_RELAXED);
    return true;
}

static bool is_complete(const struct zg_slab *slab, uint64_t number, const struct run *run) {
    uint64_t end = first_slot(slab, number + 1);
    return end <= __atomic_load_n(&slab->used, __ATOMIC_RELAXED) && run->dead == end - first_slot(slab, number);
}

static void set_state(struct zg_block *block, enum zg_state state) {
    uint32_t header = __atomic_load_n(&block->header, __ATOMIC_RELAXED);
    __atomic_store_n(&block->header, zg_header_in_state(header, state), __ATOMIC_RELEASE);
}
static enum zg_state state_of(const struct zg_slab *slab, uint64_t index) {
    return zg_header_state(__atomic_load_n(&slab->blocks[index].header, __ATOMIC_RELAXED));
}

// --- protecting and using again ----------------------------------------------------------------------------------------

static bool is_protected(uint32_t class, uint64_t number) {
    return number < runs_committed[class] && runs[class][number].protection;
}

// The pages of runs [from, to) that nobody else has a part in: a page that a neighbour shares belongs to whoever dies last.
static void pages_of(const struct zg_slab *slab, uint32_t class, uint64_t from, uint64_t to, uint64_t *low,
                     uint64_t *high) {
    uint64_t start = zg_slab_slot_address(slab, first_slot(slab, from));
    uint64_t end = zg_slab_slot_address(slab, first_slot(slab, to));
    *low = from && is_protected(class, from - 1) ? start & ~(ZG_PAGE_BYTES - 1) : zg_round_up(start, ZG_PAGE_BYTES);
    *high = is_protected(class, to) ? zg_round_up(end, ZG_PAGE_BYTES) : end & ~(ZG_PAGE_BYTES - 1);
}

static void count_retired(struct zg_slab *slab, int64_t slots) {
    retired_slots += (uint64_t)slots;
    zg_store(&retired_bytes, retired_bytes + (uint64_t)(slots * (int64_t)slab->slot_bytes));
    zg_stats_add(zg_counter_retired_blocks, (uint64_t)slots);
    zg_stats_add(zg_counter_retired_bytes, (uint64_t)(slots * (int64_t)slab->slot_bytes));
}

// Runs [from, to) of a class, all complete, not retired yet. Returns the bytes given back. Under the lock.
static uint64_t retire_runs(uint32_t class, uint64_t from, uint64_t to) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t low, high;
    pages_of(slab, class, from, to, &low, &high);
    enum zg_protection protection = low < high ? zg_protect((void *)low, high - low) : zg_protection_none;
    if (protection == zg_protection_none) return 0;
    int64_t count = 0;
    for (uint64_t i = first_slot(slab, from), end = first_slot(slab, to); i < end; i++) {
        if (state_of(slab, i) != zg_state_held) continue; // retired with a page of it before
        set_state(&slab->blocks[i], zg_state_retired);
        count++;
    }
    count_retired(slab, count);
    for (uint64_t number = from; number < to; number++) {
        runs[class][number].protection = (uint8_t)protection;
        runs[class][number].counted = number + 1 == to;
        enqueue(&retired[class], class, number);
    }
    phase.retired_count += (uint32_t)(to - from);
    return high - low;
}

static void free_slots(uint32_t class, uint64_t from, uint64_t to, enum zg_state state, struct run *run) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t slots[BUFFER_SLOTS], count = 0;
    // The records of the last run's other slots may not be accessible yet.
    to = zg_min(to, __atomic_load_n(&slab->used, __ATOMIC_RELAXED));
    for (uint64_t i = from; i < to; i++) {
        if (state_of(slab, i) != state || slab->blocks[i].header & ZG_HEADER_CONTENTS_RESTORED) continue;
        set_state(&slab->blocks[i], zg_state_reusable);
        run->dead--;
        slots[count++] = (uint32_t)i;
        if (count == BUFFER_SLOTS) zg_slab_release(class, slots, count), count = 0;
    }
    if (count) zg_slab_release(class, slots, count);
}

// All slots whose records begin before `end` and from `first` on belong to empty runs.
static bool are_empty(const struct zg_slab *slab, uint32_t class, uint64_t first, uint64_t end) {
    for (uint64_t number = run_of(slab, first); number <= run_of(slab, end - 1); number++)
        if (number >= runs_committed[class] || !runs[class][number].empty) return false;
    return true;
}

// The entries of slots [from, to) become zero: pages of the table that hold nothing else go back. What lies above `used` is taken
// without the lock, and stays.
static void clear_entries(const struct zg_slab *slab, uint32_t class, uint64_t from, uint64_t to, void *table,
                          uint64_t entry_bytes) {
    uint64_t base = (uint64_t)table, start = base + from * entry_bytes, end = base + to * entry_bytes;
    uint64_t low = start & ~(ZG_PAGE_BYTES - 1), high = zg_round_up(end, ZG_PAGE_BYTES);
    uint64_t first = (low - base) / entry_bytes, last = (high - base) / entry_bytes;
    if (first < from && !are_empty(slab, class, first, from)) low += ZG_PAGE_BYTES;
    if (last > to && (last > __atomic_load_n(&slab->used, __ATOMIC_RELAXED) || !are_empty(slab, class, to, last)))
        high -= ZG_PAGE_BYTES;
    if (low >= high || zg_os_discard((void *)low, high - low) != 0) low = high = end;
    if (start < low) __builtin_memset((void *)start, 0, low - start);
    if (high < end) __builtin_memset((void *)high, 0, end - high);
}

// A run whose pages have no memory any more: its slots are as if they had never been used, and so are their records.
static void make_empty(uint32_t class, uint64_t number) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    struct run *run = &runs[class][number];
    uint64_t from = first_slot(slab, number), to = first_slot(slab, number + 1);
    clear_entries(slab, class, from, to, slab->blocks, sizeof(struct zg_block));
    if (zg_slab_has_deaths(slab)) clear_entries(slab, class, from, to, slab->deaths, sizeof(struct zg_death));
    run->dead = 0;
    run->empty = run->forgotten = 1;
    zg_store(&empty_bytes, empty_bytes + (to - from) * slab->slot_bytes);
    enqueue(&empty[class], class, number);
}

// The class's oldest retired run becomes empty. It stays protected where that costs no mapping. Under the lock.
static bool empty_oldest(uint32_t class) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t number;
    if (!dequeue(&retired[class], class, &number)) return false;
    struct run *run = &runs[class][number];
    uint64_t from = first_slot(slab, number), to = first_slot(slab, number + 1);
    count_retired(slab, -(int64_t)(to - from));
    if (run->protection == zg_protection_mprotect) {
        // Pages that are shared with retired neighbours are opened as well: of those nothing is used, and part is not seen.
        uint64_t low = zg_slab_slot_address(slab, from) & ~(ZG_PAGE_BYTES - 1);
        uint64_t high = zg_round_up(zg_slab_slot_address(slab, to), ZG_PAGE_BYTES);
        if (!zg_unprotect((void *)low, high - low, zg_protection_mprotect)) return true; // lost for good
        if (run->counted) zg_mappings_give(2);
        run->protection = zg_protection_none;
    }
    make_empty(class, number);
    return true;
}

static void clear_memory(uint64_t from, uint64_t to) {
    uint64_t at = from;
    while (at < to && !*(const uint64_t *)at) at += sizeof(uint64_t); // reading backs nothing with memory
    if (at < to) __builtin_memset((void *)at, 0, to - at);
}

// The class's oldest empty run is handed out next. Under the lock.
static bool open_oldest(uint32_t class) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t number;
    while (dequeue(&empty[class], class, &number)) {
        struct run *run = &runs[class][number];
        uint64_t from = first_slot(slab, number), to = first_slot(slab, number + 1);
        uint64_t start = zg_slab_slot_address(slab, from), end = zg_slab_slot_address(slab, to);
        uint64_t low = start & ~(ZG_PAGE_BYTES - 1), high = zg_round_up(end, ZG_PAGE_BYTES);
        enum zg_protection protection = run->protection              ? (enum zg_protection)run->protection
                                        : zg_protection_had_guards() ? zg_protection_guards
                                                                     : zg_protection_none;
        zg_store(&empty_bytes, empty_bytes - (end - start));
        // Pages that are shared with protected neighbours are opened as well: nothing in them is used.
        if (protection != zg_protection_none && !zg_unprotect((void *)low, high - low, protection)) continue; // lost
        run->protection = zg_protection_none;
        run->empty = 0;
        run->guarded = 0;
        // Its parts of shared pages may hold the fill.
        clear_memory(start, zg_min(low == start ? start : low + ZG_PAGE_BYTES, end));
        clear_memory(zg_max(high == end ? end : high - ZG_PAGE_BYTES, start), end);
        zg_pressure_note_taken(high - low);
        zg_slab_recycle(class, from, to);
        return true;
    }
    return false;
}

static bool are_too_many(void) {
    uint64_t records = retired_slots * (sizeof(struct zg_block) + sizeof(struct zg_death));
    uint64_t most = zg_max(RECORDS_LEAST, zg_stats_get(zg_counter_live_bytes) >> RECORDS_SHIFT);
    return retired_bytes > zg_config.retired_bytes || records > (has_forced ? 2 * most : most);
}

// Oldest first within a class, the classes in turn. Under the lock.
static void keep_to_budget(void) {
    for (uint32_t idle = 0; idle < ZG_CLASS_COUNT && are_too_many(); next_class = (next_class + 1) % ZG_CLASS_COUNT)
        idle = empty_oldest(next_class) ? 0 : idle + 1;
}

bool zg_retire_open(uint32_t class) {
    if (!__atomic_load_n(&empty[class].oldest, __ATOMIC_RELAXED)) return false;
    zg_lock_take(&retire_lock);
    bool done = open_oldest(class);
    zg_lock_drop(&retire_lock);
    return done;
}

bool zg_retire_reuse(uint32_t class) {
    zg_lock_take(&retire_lock);
    bool done = open_oldest(class) || (empty_oldest(class) && open_oldest(class));
    zg_lock_drop(&retire_lock);
    return done;
}

// --- phases ------------------------------------------------------------------------------------------------------------

// With on_finding=continue contents are needed later.
static bool is_on(void) {
    return zg_config.retired_bytes && !zg_protection_is_stopped() && zg_config.on_finding != zg_on_finding_continue;
}

static bool may_begin(void) {
    if (!is_on() || !zg_config.fence_overhead || zg_protection_now() == zg_protection_mprotect) return false;
    return zg_arch_ticks() >= zg_load(&phase.wait_until_ticks) && zg_page_time_allows(zg_page_retire, false);
}

bool zg_retire_enter(const struct zg_thread *thread) {
    if (__atomic_load_n(&forced_by, __ATOMIC_RELAXED) == thread) return is_on();
    if (!__atomic_load_n(&phase.active, __ATOMIC_RELAXED) && !may_begin()) return false;
    ZG_ARCH_REACH_STACK(ZG_LOCKED_STACK_BYTES);
    if (!zg_lock_try(&retire_lock)) return false;
    __atomic_store_n(&phase.active, true, __ATOMIC_RELAXED);
    return true;
}

bool zg_retire_hold(struct zg_slab *slab, uint32_t class, uint32_t index) {
    uint32_t number = run_of(slab, index);
    struct run *run = run_at(class, number);
    if (!run) return false;
    if (!run->touched && !is_forced()) {
        if (phase.touched_count == TOUCHED_MOST) {
            phase.is_full = true;
            return false;
        }
        run->touched = 1;
        phase.touched[phase.touched_count++] = class << 20 | number;
    }
    set_state(&slab->blocks[index], zg_state_held);
    run->dead++;
    phase.held_bytes += slab->slot_bytes;
    return true;
}

// Retires the complete ones of the runs that the phase touched, neighbours together; they come in the order in which their
// first blocks died, which mostly is that of their addresses. With `end` the others become free. Under the lock.
static void settle(bool end) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < phase.touched_count;) {
        uint32_t class = phase.touched[i] >> 20, number = phase.touched[i] & 0xfffff, next = i + 1;
        struct zg_slab *slab = &zg_slabs.slab[class];
        struct run *run = &runs[class][number];
        if (!is_complete(slab, number, run)) {
            if (end) {
                run->touched = 0;
                free_slots(class, first_slot(slab, number), first_slot(slab, number + 1), zg_state_held, run);
            } else {
                phase.touched[kept++] = phase.touched[i];
            }
            i = next;
            continue;
        }
        run->touched = 0;
        for (uint64_t more = number + 1; next < phase.touched_count && phase.touched[next] == (class << 20 | more);
             more++, next++) {
            if (!is_complete(slab, more, &runs[class][more])) break;
            runs[class][more].touched = 0;
        }
        uint64_t count = next - i, ticks = zg_arch_ticks();
        uint64_t bytes = retire_runs(class, number, number + count);
        zg_page_time_retired(ticks, bytes / ZG_PAGE_BYTES);
        phase.held_bytes -= zg_min(phase.held_bytes, count << RUN_SHIFT);
        if (!bytes)
            for (uint64_t j = number; j < number + count; j++)
                free_slots(class, first_slot(slab, j), first_slot(slab, j + 1), zg_state_held, &runs[class][j]);
        i = next;
    }
    phase.touched_count = kept;
}

// What came of it decides how soon the next phase begins. Under the lock.
static void end_phase(uint32_t touched) {
    bool paid = phase.retired_count * 4 >= touched;
    phase.backoff_ns = paid ? BACKOFF_LEAST_NS : zg_min(phase.backoff_ns * 2, BACKOFF_MOST_NS);
    zg_store(&phase.wait_until_ticks, zg_arch_ticks() + zg_clock_ticks(phase.backoff_ns));
    __atomic_store_n(&phase.active, false, __ATOMIC_RELAXED);
    phase.is_full = false;
    phase.held_bytes = phase.retired_count = 0;
}

void zg_retire_leave(const struct zg_thread *thread) {
    if (__atomic_load_n(&forced_by, __ATOMIC_RELAXED) == thread) return;
    bool end = phase.is_full || phase.held_bytes > HOLD_MOST || !zg_page_time_allows(zg_page_retire, false);
    if (end || phase.held_bytes >= RUN_BYTES) {
        uint32_t touched = phase.touched_count + phase.retired_count;
        settle(end);
        if (end) end_phase(touched);
        keep_to_budget();
    }
    zg_lock_drop(&retire_lock);
}

bool zg_retire_wants_span(uint64_t bytes) {
    if (!is_on()) return false;
    if (is_forced()) return true;
    if (!zg_config.fence_overhead || !zg_page_time_allows(zg_page_retire, false)) return false;
    zg_page_time_retired(zg_arch_ticks(), bytes / ZG_PAGE_BYTES);
    return true;
}

// --- all at once -------------------------------------------------------------------------------------------------------

// Slots of the central list are held, like the evicted ones.
static void hold_free_slots(uint32_t class) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t slots[BUFFER_SLOTS], count;
    while ((count = zg_slab_take_free(class, slots, BUFFER_SLOTS)) != 0)
        for (uint32_t i = 0; i < count; i++) {
            if (zg_retire_hold(slab, class, slots[i])) continue;
            zg_slab_release(class, slots + i, count - i); // no memory to count them
            return;
        }
}

static bool is_dead_page(const struct zg_slab *slab, uint64_t page) {
    uint64_t used = __atomic_load_n(&slab->used, __ATOMIC_RELAXED);
    uint64_t first = (page - slab->base) / slab->slot_bytes,
             last = (page + ZG_PAGE_BYTES - 1 - slab->base) / slab->slot_bytes;
    if (last >= used) return false;
    for (uint64_t i = first; i <= last; i++) {
        enum zg_state state = state_of(slab, i);
        if (state != zg_state_held && state != zg_state_retired) return false;
    }
    return true;
}

// Of pages of one run, what has memory; all, where the kernel does not say.
static uint64_t present_bytes(uint64_t low, uint64_t high) {
    unsigned char present[RUN_BYTES / ZG_PAGE_BYTES];
    uint64_t count = 0;
    if (zg_os_find_present((void *)low, high - low, present) != 0) return high - low;
    for (uint64_t i = 0; i < (high - low) / ZG_PAGE_BYTES; i++) count += present[i] & 1;
    return count * ZG_PAGE_BYTES;
}

// Pages of an incomplete run of which all slots are dead, but for those that were protected before: nothing in them can change.
static uint64_t retire_pages(uint32_t class, uint64_t number) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    struct run *run = &runs[class][number];
    uint64_t given = 0, start = slab->base + (number << RUN_SHIFT), end = start + RUN_BYTES;
    for (uint64_t low = start; low < end;) {
        uint64_t high = low;
        while (high < end && !(run->guarded >> ((high - start) >> ZG_PAGE_SHIFT) & 1) && is_dead_page(slab, high))
            high += ZG_PAGE_BYTES;
        if (high == low) {
            low += ZG_PAGE_BYTES;
            continue;
        }
        // Without guards each piece would cost mappings, which only whole runs are worth: the memory goes back unprotected.
        if (!is_on() || zg_protection_now() != zg_protection_guards) {
            uint64_t present = present_bytes(low, high);
            if (present && zg_os_discard((void *)low, high - low) == 0) given += present;
        } else if (zg_protect((void *)low, high - low) != zg_protection_none) {
            int64_t count = 0;
            for (uint64_t i = (low - slab->base) / slab->slot_bytes; zg_slab_slot_address(slab, i) < high; i++) {
                if (state_of(slab, i) != zg_state_held) continue;
                set_state(&slab->blocks[i], zg_state_retired);
                count++;
            }
            count_retired(slab, count);
            for (uint64_t at = low; at < high; at += ZG_PAGE_BYTES)
                run->guarded |= UINT32_C(1) << ((at - start) >> ZG_PAGE_SHIFT);
            given += high - low;
        }
        low = high;
    }
    return given;
}

// Runs [from, to) of a class, all complete, where nothing is protected. Returns the bytes given back. Under the lock.
static uint64_t empty_runs(uint32_t class, uint64_t from, uint64_t to) {
    uint64_t low, high;
    pages_of(&zg_slabs.slab[class], class, from, to, &low, &high);
    if (low >= high || zg_os_discard((void *)low, high - low) != 0) return 0;
    for (uint64_t number = from; number < to; number++) {
        // Some may have been retired with single pages, while pages were protected.
        for (uint64_t i = first_slot(&zg_slabs.slab[class], number); i < first_slot(&zg_slabs.slab[class], number + 1);
             i++)
            if (state_of(&zg_slabs.slab[class], i) == zg_state_retired) count_retired(&zg_slabs.slab[class], -1);
        make_empty(class, number);
    }
    return high - low;
}

static uint64_t retire_class(uint32_t class) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t given = 0, used = __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE);
    uint64_t count = zg_min(runs_committed[class], used ? run_of(slab, used - 1) + 1 : 0);
    for (uint64_t number = 0; number < count; number++) {
        uint64_t to = number;
        while (to < count && !runs[class][to].protection && is_complete(slab, to, &runs[class][to])) to++;
        if (to == number) continue;
        given += is_on() ? retire_runs(class, number, to) : empty_runs(class, number, to);
        number = to - 1;
    }
    for (uint64_t number = 0; number < count; number++) {
        struct run *run = &runs[class][number];
        if (!run->dead || run->protection) continue;
        given += retire_pages(class, number);
        free_slots(class, first_slot(slab, number), first_slot(slab, number + 1), zg_state_held, run);
    }
    return given;
}

void zg_retire_all_begin(const struct zg_thread *thread) {
    zg_lock_take(&retire_lock);
    // What a phase holds stands in the same counts.
    for (uint32_t i = 0; i < phase.touched_count; i++)
        runs[phase.touched[i] >> 20][phase.touched[i] & 0xfffff].touched = 0;
    phase.touched_count = 0;
    __atomic_store_n(&phase.active, false, __ATOMIC_RELAXED);
    __atomic_store_n(&forced_by, thread, __ATOMIC_RELAXED);
    has_forced = true;
}

uint64_t zg_retire_all_end(void) {
    uint64_t given = 0;
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        hold_free_slots(class);
        given += retire_class(class);
    }
    keep_to_budget();
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) zg_slab_trim_list(class);
    __atomic_store_n(&forced_by, NULL, __ATOMIC_RELAXED);
    phase.held_bytes = phase.retired_count = 0;
    zg_lock_drop(&retire_lock);
    return given;
}

uint64_t zg_retire_bytes(void) { return zg_load(&retired_bytes) + zg_load(&empty_bytes); }

bool zg_retire_is_forgotten(uint64_t pointer) {
    struct zg_block_view view;
    uint64_t address = zg_arch_address(pointer);
    if (!zg_slab_contains(address) || zg_lookup_block(pointer, &view)) return false;
    if (zg_tags_are_on() && zg_tags_is_stale(pointer)) return true;
    uint64_t index, interior;
    const struct zg_slab *slab = zg_slab_find(address, &index, &interior);
    uint32_t class = (uint32_t)(slab - zg_slabs.slab), number = run_of(slab, index);
    return index < zg_load(&slab->used) && number < zg_load(&runs_committed[class]) && runs[class][number].forgotten;
}

void zg_retire_lock(void) { zg_lock_take(&retire_lock); }
void zg_retire_unlock(bool reset) {
    if (reset) zg_lock_reset(&retire_lock);
    else zg_lock_drop(&retire_lock);
}

#ifdef ZG_CHECK_INVARIANTS
const char *zg_retire_broken(void (*slot)(uint32_t class, uint64_t index)) {
    uint64_t slots = 0, bytes = 0;
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        struct zg_slab *slab = &zg_slabs.slab[class];
        uint64_t queued = 0, protected = 0, emptied = 0;
        uint32_t last = 0;
        for (uint64_t number = 0; number < runs_committed[class]; number++) {
            const struct run *run = &runs[class][number];
            uint64_t dead = 0, retired = 0, from = first_slot(slab, number),
                     to = zg_min(first_slot(slab, number + 1), slab->used);
            for (uint64_t i = from; i < to; i++) {
                dead += state_of(slab, i) == zg_state_held || state_of(slab, i) == zg_state_retired;
                retired += state_of(slab, i) == zg_state_retired;
            }
            if (dead != run->dead) return "a run has another number of dead slots than it counts";
            if (run->protection && !run->empty && (retired != to - from || to != first_slot(slab, number + 1)))
                return "a slot of a retired run is not retired";
            protected += run->protection != zg_protection_none && !run->empty;
            emptied += run->empty;
            slots += retired, bytes += retired * slab->slot_bytes;
        }
        for (uint32_t number = retired[class].oldest; number && queued <= protected;
             number = runs[class][number - 1].next) {
            if (!runs[class][number - 1].protection || runs[class][number - 1].empty)
                return "a run that is not retired is in the queue of those";
            queued++, last = number;
        }
        if (queued != protected || (last && last != retired[class].newest))
            return "the queue of retired runs is not all of them";
        queued = last = 0;
        for (uint32_t number = empty[class].oldest; number && queued <= emptied;
             number = runs[class][number - 1].next) {
            if (!runs[class][number - 1].empty) return "a run that is not empty is in the queue of those";
            for (uint64_t i = first_slot(slab, number - 1); i < first_slot(slab, number); i++) {
                if (state_of(slab, i) != zg_state_fresh) return "a slot of an empty run is not fresh";
                slot(class, i);
            }
            queued++, last = number;
        }
        if (queued != emptied || (last && last != empty[class].newest))
            return "the queue of empty runs is not all of them";
    }
    return slots == retired_slots && bytes == retired_bytes ? NULL
                                                            : "another number of slots is retired than is counted";
}
#endif
