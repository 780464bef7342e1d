// The slow part of the slab heap: reservation, growth, and the central bitmaps of free slots.
// Slow path; one lock per class.

#include "blocks/slab.h"

#include "blocks/fill.h"
#include "pressure/pressure.h"
#include "platform/os.h"
#include "settings/stats.h"

// A class commits memory in steps of a quarter of its slots, within these bounds.
#define COMMIT_LEAST ((uint64_t)256 << 10)
#define COMMIT_MOST ((uint64_t)32 << 20)
// SHARED_BLOCKS: number of a class's blocks that slots of a larger class serve before the class gets slots of its own.
// SHARED_MOST: largest slot size of such a class.
enum { SHARED_BLOCKS = 64, SHARED_MOST = 4096 };

// Bytes that one page-table page maps.
#define TABLE_BYTES ((uint64_t)2 << 20)

struct zg_slabs zg_slabs;

// Takes whole pages for `bytes` bytes off a reservation and advances `*at`.
ZG_INLINE void *take_part(char **at, uint64_t bytes) {
    char *start = *at;
    *at += zg_round_up(bytes, ZG_PAGE_BYTES);
    return start;
}

// Runs at the start of every process, so divisions are avoided: each slot size is derived from the previous one.
bool zg_slab_init(uint32_t region_shift) {
    uint64_t region = UINT64_C(1) << region_shift, slots_bytes = region * ZG_CLASS_COUNT, slots = 0;
    uint32_t bytes = 16, step = 16;
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++, bytes += step) {
        struct zg_slab *slab = &zg_slabs.slab[class];
        slab->slot_bytes = bytes;
        slots += slab->limit = region / bytes;
        if (bytes >= 128 && !(bytes & (bytes - 1))) step = bytes / 4; // as in zg_class_bytes
    }
    // The bits of free slots end, and the records begin, in the middle of the range that one page-table page maps, so
    // that both share this page-table page.
    uint64_t shared = region >= ZG_CLASS_COUNT * TABLE_BYTES ? TABLE_BYTES : 0;
    // Each class begins a group of bits of its own (less than a page), and rounds three tables up to pages.
    uint64_t tables_bytes = slots * (sizeof(struct zg_block) + sizeof(struct zg_death)) + zg_free_slots_bytes(slots) +
                            (4 * ZG_PAGE_BYTES + shared) * ZG_CLASS_COUNT;
    char *start = zg_os_reserve(slots_bytes + region); // one more region for the alignment
    if (!start) return false;
    char *tables = zg_os_reserve(zg_round_up(tables_bytes, ZG_PAGE_BYTES));
    if (!tables) {
        zg_os_unreserve(start, slots_bytes + region);
        return false;
    }
    // An alignment of 2 MiB gives every slot the natural alignment of its size class.
    zg_slabs.base = zg_round_up((uint64_t)start, zg_min(region, UINT64_C(1) << 21));
    zg_slabs.bytes = slots_bytes;
    zg_slabs.region_shift = region_shift;
    uint64_t base = zg_slabs.base;
    struct zg_layout_class *layout = zg_stats->layout.classes;
    for (struct zg_slab *slab = zg_slabs.slab; slab < zg_slabs.slab + ZG_CLASS_COUNT;
         slab++, layout++, base += region) {
        slab->base = layout->slots_base = base;
        slab->reciprocal = UINT64_MAX / slab->slot_bytes + 1;
        slab->magazine = zg_magazine_slots(slab->slot_bytes);
        slab->first = (uint64_t)(slab - zg_slabs.slab) << 48 | (uint64_t)slab->slot_bytes << 28;
        slab->filled = zg_fill_bytes(slab->slot_bytes);
        take_part(&tables, zg_free_slots_bytes(slab->limit));
        if (shared) tables += (shared / 2 - (uint64_t)tables) & (shared - 1);
        slab->free.end = (uint64_t *)tables;
        slab->blocks = take_part(&tables, slab->limit * sizeof(struct zg_block));
        slab->deaths = take_part(&tables, slab->limit * sizeof(struct zg_death));
        layout->blocks_base = (uint64_t)slab->blocks;
        layout->deaths_base = (uint64_t)slab->deaths;
        layout->slot_bytes = slab->slot_bytes;
    }
    zg_stats->layout.class_count = ZG_CLASS_COUNT;
    zg_stats->layout.block_bytes = sizeof(struct zg_block);
    zg_stats->layout.slabs_base = zg_slabs.base;
    zg_stats->layout.slabs_bytes = zg_slabs.bytes;
    zg_stats->layout.slabs_shift = region_shift;
    return true;
}

bool zg_slab_is_valid(const struct zg_slab *slab) {
    if (slab->used > slab->committed || slab->committed > slab->limit) return false; // invariant 1
    return slab->free.count <= slab->used;                                           // invariant 2
}

static bool commit_range(uint64_t from, uint64_t to) {
    uint64_t start = from & ~(ZG_PAGE_BYTES - 1);
    if (zg_os_commit((void *)start, zg_round_up(to, ZG_PAGE_BYTES) - start) == 0) return true;
    zg_pressure_note_failure();
    return false;
}

// Commits elements [from, to) of a table in whole pages. The first page may be committed already.
static bool commit_part(const void *table, uint64_t from, uint64_t to, uint64_t element_bytes) {
    return commit_range((uint64_t)table + from * element_bytes, (uint64_t)table + to * element_bytes);
}

// Commits the records of slots [from, to) and their bits in the bitmap of free slots. Then freeing a slot needs no
// memory, which may be short by then.
static bool commit_records(const struct zg_slab *slab, uint64_t from, uint64_t to) {
    uint64_t end = (uint64_t)slab->free.end, low = end - zg_free_slots_bytes(to),
             high = end - zg_free_slots_bytes(from);
    if (!from) return commit_range(low, (uint64_t)(slab->blocks + to));
    if (!commit_part(slab->blocks, from, to, sizeof(struct zg_block))) return false;
    return low == high || commit_range(low, high);
}

// deaths_needed: committing slots includes their death records. deaths_complete: all slots have death records.
static bool deaths_needed, deaths_complete;

bool zg_slab_has_deaths(const struct zg_slab *slab) {
    return slab->slot_bytes >= ZG_SPARSE_LEAST || __atomic_load_n(&deaths_complete, __ATOMIC_ACQUIRE);
}

bool zg_slab_need_deaths(void) {
    if (__atomic_load_n(&deaths_complete, __ATOMIC_ACQUIRE)) return true;
    // A relaxed store suffices: a thread that takes a class's lock after the loop below sees the new value.
    __atomic_store_n(&deaths_needed, true, __ATOMIC_RELAXED);
    bool all = true;
    for (struct zg_slab *slab = zg_slabs.slab; slab < zg_slabs.slab + ZG_CLASS_COUNT && all; slab++) {
        zg_lock_take_inside(&slab->lock);
        all = !slab->committed || commit_part(slab->deaths, 0, slab->committed, sizeof(struct zg_death));
        zg_lock_drop(&slab->lock);
    }
    if (all) __atomic_store_n(&deaths_complete, true, __ATOMIC_RELEASE);
    return all;
}

// Commits `step` bytes of fresh slots. Under the lock.
static bool commit_step(struct zg_slab *slab, uint64_t step) {
    uint64_t committed = zg_min(slab->committed + step / slab->slot_bytes, slab->limit);
    if (committed == slab->committed) return false;
    if (!commit_part((void *)slab->base, slab->committed, committed, slab->slot_bytes)) return false;
    if (!commit_records(slab, slab->committed, committed)) return false;
    bool with_deaths = slab->slot_bytes >= ZG_SPARSE_LEAST || __atomic_load_n(&deaths_needed, __ATOMIC_RELAXED);
    if (with_deaths && !commit_part(slab->deaths, slab->committed, committed, sizeof(struct zg_death))) return false;
    zg_stats_add(zg_counter_heap_committed_bytes, (committed - slab->committed) * slab->slot_bytes);
    zg_stats_add(zg_counter_metadata_bytes,
                 (committed - slab->committed) * (sizeof(struct zg_block) + sizeof(struct zg_death)) +
                     zg_free_slots_bytes(committed) - zg_free_slots_bytes(slab->committed));
    zg_free_slots_grow(&slab->free, committed);
    zg_store(&slab->committed, committed); // also read without the lock
    return true;
}

static bool commit_more(struct zg_slab *slab) {
    uint64_t bytes = slab->committed * slab->slot_bytes;
    return commit_step(slab, zg_min(zg_max(bytes / 4, COMMIT_LEAST), COMMIT_MOST));
}

void zg_slab_open_reserve(uint64_t bytes) {
    zg_slab_need_deaths();
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        struct zg_slab *slab = &zg_slabs.slab[class];
        zg_lock_take_inside(&slab->lock);
        uint64_t wanted = zg_max(bytes, slab->committed * slab->slot_bytes);
        uint64_t open = (slab->committed - slab->used) * slab->slot_bytes;
        if (open < wanted) commit_step(slab, wanted - open);
        zg_lock_drop(&slab->lock);
    }
}

// Stores the slots in descending order: a magazine is emptied from its end, so the slots are handed out by ascending
// address.
static uint32_t take_in_order(struct zg_magazine *magazine, uint64_t from, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) magazine->slots[count - 1 - i] = (uint32_t)(from + i);
    return (uint32_t)count;
}

bool zg_slab_is_dry(uint32_t class) {
    const struct zg_slab *slab = &zg_slabs.slab[class];
    return !zg_load(&slab->free.count) && zg_load(&slab->opened) >= zg_load(&slab->opened_end);
}

void zg_slab_recycle(uint32_t class, uint64_t from, uint64_t to) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    zg_lock_take_inside(&slab->lock);
    if (slab->opened == slab->opened_end) {
        zg_store(&slab->opened, from);
        zg_store(&slab->opened_end, to);
    } else {
        // Another thread has opened slots meanwhile. Those of this thread become free slots.
        for (uint32_t i = (uint32_t)from; i < to; i++) zg_free_slots_put(&slab->free, &i, 1);
    }
    zg_lock_drop(&slab->lock);
}

uint32_t zg_slab_refill(uint32_t class, struct zg_magazine *magazine) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t wanted = slab->magazine / 2;
    zg_lock_take_inside(&slab->lock);
    uint32_t count = zg_free_slots_take(&slab->free, magazine->slots, wanted);
    if (!count && slab->opened < slab->opened_end) {
        uint64_t opened = zg_min(wanted, slab->opened_end - slab->opened);
        count = take_in_order(magazine, slab->opened, opened);
        zg_store(&slab->opened, slab->opened + opened);
    }
    if (!count) {
        if (slab->used == slab->committed) commit_more(slab);
        uint64_t fresh = zg_min(wanted, slab->committed - slab->used);
        count = take_in_order(magazine, slab->used, fresh);
        zg_pressure_note_taken(fresh * slab->slot_bytes);
        __atomic_store_n(&slab->used, slab->used + fresh, __ATOMIC_RELEASE);
        zg_store(&zg_stats->layout.classes[class].slots_used, slab->used);
    }
    zg_lock_drop(&slab->lock);
    magazine->count = count;
    return count;
}

uint32_t zg_slab_serving_class(uint32_t class) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    if (__atomic_load_n(&slab->used, __ATOMIC_RELAXED) || slab->slot_bytes > SHARED_MOST) return class;
    uint32_t asked = __atomic_load_n(&slab->asked, __ATOMIC_RELAXED);
    uint32_t bytes = slab->slot_bytes - 1, larger = zg_max(32, UINT32_C(1) << (32 - __builtin_clz(bytes)));
    if (asked == SHARED_BLOCKS || larger == slab->slot_bytes) return class;
    __atomic_store_n(&slab->asked, asked + 1, __ATOMIC_RELAXED);
    return zg_size_class(larger);
}

void zg_slab_release(uint32_t class, const uint32_t *slots, uint32_t count) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    zg_lock_take_inside(&slab->lock);
    zg_free_slots_put(&slab->free, slots, count);
    zg_lock_drop(&slab->lock);
}

uint32_t zg_slab_take_free(uint32_t class, uint32_t *slots, uint32_t most) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    zg_lock_take_inside(&slab->lock);
    uint32_t count = zg_free_slots_take(&slab->free, slots, most);
    zg_lock_drop(&slab->lock);
    return count;
}

void zg_slab_lock_all(void) {
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) zg_lock_take(&zg_slabs.slab[class].lock);
}

void zg_slab_unlock_all(bool reset) {
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        if (reset) zg_lock_reset(&zg_slabs.slab[class].lock);
        else zg_lock_drop(&zg_slabs.slab[class].lock);
    }
}
