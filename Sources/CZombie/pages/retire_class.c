// Retires all freed slots of a class.
// Slow path; under the lock of retired runs.

#include "pages/retire_class.h"

#include "pages/protect.h"
#include "pages/runs.h"
#include "platform/os.h"

// Returns true if all slots with a part in the page are held or retired.
static bool is_dead_page(const struct zg_slab *slab, uint64_t page) {
    uint64_t used = __atomic_load_n(&slab->used, __ATOMIC_RELAXED);
    uint64_t first = (page - slab->base) / slab->slot_bytes,
             last = (page + ZG_PAGE_BYTES - 1 - slab->base) / slab->slot_bytes;
    if (last >= used) return false;
    for (uint64_t i = first; i <= last; i++) {
        enum zg_state state = zg_slot_state(slab, i);
        if (state != zg_state_held && state != zg_state_retired) return false;
    }
    return true;
}

// Returns how many bytes of [low, high), which lies in one run, have memory; all bytes if the kernel refuses the query.
static uint64_t present_bytes(uint64_t low, uint64_t high) {
    unsigned char present[ZG_RUN_BYTES / ZG_PAGE_BYTES];
    uint64_t count = 0;
    if (zg_os_find_present((void *)low, high - low, present) != 0) return high - low;
    for (uint64_t i = 0; i < (high - low) / ZG_PAGE_BYTES; i++) count += present[i] & 1;
    return count * ZG_PAGE_BYTES;
}

// Returns the bit of a page in the run's `guarded`.
static uint32_t guarded_bit(uint64_t start, uint64_t page) { return UINT32_C(1) << ((page - start) >> ZG_PAGE_SHIFT); }

// Marks the held slots that begin in [low, high) as retired.
static void mark_retired(struct zg_slab *slab, uint64_t low, uint64_t high) {
    int64_t count = 0;
    for (uint64_t i = (low - slab->base) / slab->slot_bytes; zg_slab_slot_address(slab, i) < high; i++) {
        if (zg_slot_state(slab, i) != zg_state_held) continue;
        zg_slot_set_state(&slab->blocks[i], zg_state_retired);
        count++;
    }
    zg_runs_count_retired(slab, count);
}

// Releases the memory of pages [low, high), which hold no live blocks. Guards the pages if guard pages are available;
// without these, mappings are spent on whole runs only. Returns the number of bytes released; `*is_guarded` receives
// whether the pages are guarded.
static uint64_t give_pages(uint64_t low, uint64_t high, bool *is_guarded) {
    *is_guarded = false;
    if (zg_runs_may_be_retired() && zg_protection_now() == zg_protection_guards) {
        *is_guarded = zg_protect((void *)low, high - low) != zg_protection_none;
        return *is_guarded ? high - low : 0;
    }
    uint64_t present = present_bytes(low, high);
    return present && zg_os_discard((void *)low, high - low) == 0 ? present : 0;
}

// Retires the pages of an incomplete run that hold no live blocks. Skips pages that were guarded before: their slots
// are retired already.
static uint64_t retire_pages(uint32_t class, uint64_t number) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    struct zg_run *run = zg_run_by_number(class, number);
    uint64_t given = 0, start = slab->base + (number << ZG_RUN_SHIFT), end = start + ZG_RUN_BYTES;
    for (uint64_t low = start, high; low < end; low = high) {
        for (high = low; high < end && !(run->guarded & guarded_bit(start, high)) && is_dead_page(slab, high);)
            high += ZG_PAGE_BYTES;
        if (high == low) {
            high += ZG_PAGE_BYTES;
            continue;
        }
        bool is_guarded;
        given += give_pages(low, high, &is_guarded);
        if (!is_guarded) continue;
        mark_retired(slab, low, high);
        for (uint64_t page = low; page < high; page += ZG_PAGE_BYTES) run->guarded |= guarded_bit(start, page);
    }
    return given;
}

// Makes the complete runs [from, to) empty without retiring them first, because pages are not protected. Returns the
// number of bytes released.
static uint64_t empty_runs(uint32_t class, uint64_t from, uint64_t to) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t low, high;
    zg_runs_pages(class, from, to, &low, &high);
    if (low >= high || zg_os_discard((void *)low, high - low) != 0) return 0;
    for (uint64_t number = from; number < to; number++) {
        // Some slots may have been retired with single pages, before page protection stopped.
        for (uint64_t i = zg_run_first_slot(slab, number), end = zg_run_first_slot(slab, number + 1); i < end; i++)
            if (zg_slot_state(slab, i) == zg_state_retired) zg_runs_count_retired(slab, -1);
        zg_run_make_empty(class, number);
    }
    return high - low;
}

uint64_t zg_retire_class(uint32_t class) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t given = 0, used = __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE);
    uint64_t count = zg_min(zg_runs.committed[class], used ? zg_run_of(slab, used - 1) + 1 : 0);
    for (uint64_t number = 0, to; number < count; number = to + (to == number)) {
        for (to = number; to < count && !zg_run_by_number(class, to)->protection && zg_run_is_complete(class, to);)
            to++;
        if (to == number) continue;
        given += zg_runs_may_be_retired() ? zg_runs_retire(class, number, to) : empty_runs(class, number, to);
    }
    for (uint64_t number = 0; number < count; number++) {
        const struct zg_run *run = zg_run_by_number(class, number);
        if (!run->dead || run->protection) continue;
        given += retire_pages(class, number);
        zg_run_free_slots(class, number, zg_state_held);
    }
    return given;
}
