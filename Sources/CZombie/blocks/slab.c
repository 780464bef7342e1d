// The slab heap's slow half: reservation, growth, and the central lists of free slots.
// Slow path; one lock for each class.

#include "blocks/slab.h"

#include "pressure/pressure.h"
#include "platform/os.h"
#include "settings/stats.h"

// Memory is made accessible in steps: a quarter of what the class has, within these bounds.
#define COMMIT_LEAST ((uint64_t)256 << 10)
#define COMMIT_MOST ((uint64_t)32 << 20)

struct zg_slabs zg_slabs;

bool zg_slab_init(uint32_t region_shift) {
    uint64_t region = UINT64_C(1) << region_shift, blocks_bytes = 0, free_bytes = 0;
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        struct zg_slab *slab = &zg_slabs.slab[class];
        slab->slot_bytes = zg_class_bytes(class);
        slab->limit = region / slab->slot_bytes;
        blocks_bytes += zg_round_up(slab->limit * sizeof(struct zg_block), ZG_PAGE_BYTES);
        blocks_bytes += zg_round_up(slab->limit * sizeof(struct zg_death), ZG_PAGE_BYTES);
        free_bytes += zg_round_up(slab->limit * sizeof(uint32_t), ZG_PAGE_BYTES);
    }
    uint64_t slots_bytes = region * ZG_CLASS_COUNT;
    char *start = zg_os_reserve(slots_bytes + region); // one region more, to align
    if (!start) return false;
    char *tables = zg_os_reserve(blocks_bytes + free_bytes);
    if (!tables) {
        zg_os_release(start, slots_bytes + region);
        return false;
    }
    // 2 MiB alignment gives every slot the natural alignment of its size class.
    zg_slabs.base = zg_round_up((uint64_t)start, zg_min(region, UINT64_C(1) << 21));
    zg_slabs.bytes = slots_bytes;
    zg_slabs.region_shift = region_shift;
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        struct zg_slab *slab = &zg_slabs.slab[class];
        slab->base = zg_slabs.base + region * class;
        slab->reciprocal = UINT64_MAX / slab->slot_bytes + 1;
        slab->magazine = zg_class_magazine(class);
        slab->blocks = (struct zg_block *)tables;
        tables += zg_round_up(slab->limit * sizeof(struct zg_block), ZG_PAGE_BYTES);
        slab->deaths = (struct zg_death *)tables;
        tables += zg_round_up(slab->limit * sizeof(struct zg_death), ZG_PAGE_BYTES);
        slab->free_slots = (uint32_t *)tables;
        tables += zg_round_up(slab->limit * sizeof(uint32_t), ZG_PAGE_BYTES);
        zg_stats->layout.classes[class] = (struct zg_layout_class){.slots_base = slab->base,
                                                                   .blocks_base = (uint64_t)slab->blocks,
                                                                   .deaths_base = (uint64_t)slab->deaths,
                                                                   .slot_bytes = slab->slot_bytes};
    }
    zg_stats->layout.class_count = ZG_CLASS_COUNT;
    zg_stats->layout.block_bytes = sizeof(struct zg_block);
    zg_stats->layout.slabs_base = zg_slabs.base;
    zg_stats->layout.slabs_bytes = zg_slabs.bytes;
    zg_stats->layout.slabs_shift = region_shift;
    return true;
}

bool zg_slab_is_valid(const struct zg_slab *slab) {
    if (slab->used > slab->committed || slab->committed > slab->limit) return false; // 1
    return slab->free_count <= slab->used;                                           // 2
}

// Makes elements [from, to) of a table accessible, in whole pages: begins at the page that the last step ended in.
static bool commit_part(const void *table, uint64_t from, uint64_t to, uint64_t element_bytes) {
    uint64_t start = ((uint64_t)table + from * element_bytes) & ~(ZG_PAGE_BYTES - 1);
    uint64_t end = zg_round_up((uint64_t)table + to * element_bytes, ZG_PAGE_BYTES);
    if (zg_os_commit((void *)start, end - start) == 0) return true;
    zg_pressure_note_failure();
    return false;
}

// Makes room for `step` bytes of fresh slots more. Under the lock.
static bool commit_step(struct zg_slab *slab, uint64_t step) {
    uint64_t committed = zg_min(slab->committed + step / slab->slot_bytes, slab->limit);
    if (committed == slab->committed) return false;
    if (!commit_part((void *)slab->base, slab->committed, committed, slab->slot_bytes)) return false;
    if (!commit_part(slab->blocks, slab->committed, committed, sizeof(struct zg_block))) return false;
    if (!commit_part(slab->deaths, slab->committed, committed, sizeof(struct zg_death))) return false;
    // The list of free slots as well: when memory is short is the time when there must be room in it.
    if (!commit_part(slab->free_slots, slab->committed, committed, sizeof(uint32_t))) return false;
    zg_stats_add(zg_counter_heap_committed_bytes, (committed - slab->committed) * slab->slot_bytes);
    zg_stats_add(zg_counter_metadata_bytes, (committed - slab->committed) *
                                                (sizeof(struct zg_block) + sizeof(struct zg_death) + sizeof(uint32_t)));
    zg_store(&slab->committed, committed); // looked at without the lock, too
    return true;
}

static bool commit_more(struct zg_slab *slab) {
    uint64_t bytes = slab->committed * slab->slot_bytes;
    return commit_step(slab, zg_min(zg_max(bytes / 4, COMMIT_LEAST), COMMIT_MOST));
}

void zg_slab_open_reserve(uint64_t bytes) {
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        struct zg_slab *slab = &zg_slabs.slab[class];
        zg_lock_take(&slab->lock);
        uint64_t wanted = zg_max(bytes, slab->committed * slab->slot_bytes);
        uint64_t open = (slab->committed - slab->used) * slab->slot_bytes;
        if (open < wanted) commit_step(slab, wanted - open);
        zg_lock_drop(&slab->lock);
    }
}

uint32_t zg_slab_refill(uint32_t class, struct zg_magazine *magazine) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t wanted = slab->magazine / 2, count = 0;
    zg_lock_take(&slab->lock);
    while (count < wanted && slab->free_count) magazine->slots[count++] = slab->free_slots[--slab->free_count];
    zg_pressure_note_used((uint64_t)count * slab->slot_bytes);
    if (!count) {
        if (slab->used == slab->committed) commit_more(slab);
        uint64_t fresh = zg_min(wanted, slab->committed - slab->used);
        // The magazine is emptied from its end: hand fresh slots out in the order of their addresses.
        for (uint64_t i = 0; i < fresh; i++) magazine->slots[fresh - 1 - i] = (uint32_t)(slab->used + i);
        count = (uint32_t)fresh;
        zg_pressure_note_taken(fresh * slab->slot_bytes);
        __atomic_store_n(&slab->used, slab->used + fresh, __ATOMIC_RELEASE);
        zg_store(&zg_stats->layout.classes[class].slots_used, slab->used);
    }
    zg_lock_drop(&slab->lock);
    magazine->count = count;
    return count;
}

void zg_slab_release(uint32_t class, const uint32_t *slots, uint32_t count) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    zg_lock_take(&slab->lock);
    for (uint32_t i = 0; i < count; i++) slab->free_slots[slab->free_count++] = slots[i];
    zg_lock_drop(&slab->lock);
}

void zg_slab_trim_list(uint32_t class) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    zg_lock_take(&slab->lock);
    uint64_t from = zg_round_up((uint64_t)(slab->free_slots + slab->free_count), ZG_PAGE_BYTES);
    uint64_t to = (uint64_t)(slab->free_slots + slab->committed) & ~(ZG_PAGE_BYTES - 1);
    if (from < to) zg_os_discard((void *)from, to - from);
    zg_lock_drop(&slab->lock);
}

uint64_t zg_slab_discard_free(uint32_t class) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint64_t bytes = 0;
    if (slab->slot_bytes < ZG_PAGE_BYTES) return 0;
    zg_lock_take(&slab->lock);
    for (uint64_t i = 0; i < slab->free_count; i++) {
        uint64_t start = zg_slab_slot_address(slab, slab->free_slots[i]);
        uint64_t first = zg_round_up(start, ZG_PAGE_BYTES), end = (start + slab->slot_bytes) & ~(ZG_PAGE_BYTES - 1);
        if (first < end && zg_os_discard((void *)first, end - first) == 0) bytes += end - first;
    }
    zg_lock_drop(&slab->lock);
    return bytes;
}

uint32_t zg_slab_take_free(uint32_t class, uint32_t *slots, uint32_t most) {
    struct zg_slab *slab = &zg_slabs.slab[class];
    uint32_t count = 0;
    zg_lock_take(&slab->lock);
    while (count < most && slab->free_count) slots[count++] = slab->free_slots[--slab->free_count];
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
