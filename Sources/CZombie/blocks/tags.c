// Memory tags of slots, and of the blocks that the slots held before. Any context; takes no lock, because only a slot's
// owner changes its record.

#include "blocks/tags.h"

#include "blocks/fill.h"
#include "platform/os.h"
#include "settings/stats.h"

enum { GRANULE = 16, ODD_TAGS = 8, EVEN_TAGS = 7 };

bool zg_tags_on;
static bool is_given_up;
static struct zg_tagged *records[ZG_CLASS_COUNT];
static uint64_t committed[ZG_CLASS_COUNT];

bool zg_tags_start(void) {
    if (!ZG_ARCH_TAGS || !zg_arch_has_tags() || !zg_os_start_tags()) return false;
    uint64_t bytes = 0;
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++)
        bytes += zg_round_up(zg_slabs.slab[class].limit * sizeof(struct zg_tagged), ZG_PAGE_BYTES);
    char *tables = zg_os_reserve(bytes);
    if (!tables) return false;
    if (!zg_os_tag_range((void *)zg_slabs.base, zg_slabs.bytes)) {
        zg_os_unreserve(tables, bytes);
        return false;
    }
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        records[class] = (struct zg_tagged *)tables;
        tables += zg_round_up(zg_slabs.slab[class].limit * sizeof(struct zg_tagged), ZG_PAGE_BYTES);
    }
    zg_tags_on = true;
    return true;
}

void zg_tags_check_again(void) {
    if (!__atomic_load_n(&is_given_up, __ATOMIC_RELAXED)) zg_arch_check_tags(true);
}

static struct zg_tagged *known(const struct zg_slab *slab, uint64_t index) {
    uint32_t class = (uint32_t)(slab - zg_slabs.slab);
    return index < __atomic_load_n(&committed[class], __ATOMIC_ACQUIRE) ? &records[class][index] : NULL;
}

// Returns the slot's record. Commits whole pages of records if needed; several threads may do so at the same time. NULL
// if memory is refused.
static struct zg_tagged *record(const struct zg_slab *slab, uint64_t index) {
    struct zg_tagged *found = known(slab, index);
    if (ZG_LIKELY(found != NULL)) return found;
    uint32_t class = (uint32_t)(slab - zg_slabs.slab);
    enum { STEP = 16 * ZG_PAGE_BYTES / sizeof(struct zg_tagged) };
    uint64_t now = __atomic_load_n(&committed[class], __ATOMIC_ACQUIRE);
    uint64_t to = zg_min(zg_round_up(zg_max(index + 1, now + now / 4), STEP), slab->limit);
    uint64_t from = (uint64_t)(records[class] + now) & ~(ZG_PAGE_BYTES - 1);
    uint64_t end = zg_round_up((uint64_t)(records[class] + to), ZG_PAGE_BYTES);
    if (zg_os_commit((void *)from, end - from) != 0) return NULL;
    while (now < to &&
           !__atomic_compare_exchange_n(&committed[class], &now, to, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
    }
    return known(slab, index);
}

// Returns the next tag for a slot whose last tag was `last`, cycling through the tags of odd or of even slots, so that
// successive blocks of the slot differ as long as possible. Nearby slots begin with different tags.
static uint8_t next_tag(uint64_t index, uint8_t last) {
    bool is_odd = index & 1;
    if (!last) return (uint8_t)(is_odd ? 1 + 2 * (index / 2 % ODD_TAGS) : 2 + 2 * (index / 2 % EVEN_TAGS));
    return (uint8_t)(last + 2 <= ZG_ARCH_TAG_MOST ? last + 2 : is_odd ? 1 : 2);
}

// Returns the end of the tagged bytes of a block of `size` bytes.
static uint64_t end_of(uint64_t start, uint64_t size) { return start + zg_round_up(size, GRANULE); }

void zg_tags_record_former(const struct zg_slab *slab, uint64_t index) {
    struct zg_tagged *tagged = record(slab, index);
    if (!tagged) return;
    const struct zg_block *block = &slab->blocks[index];
    tagged->former = *block;
    if (zg_header_zombie(block->header)) tagged->former_death = slab->deaths[index];
    if (!tagged->opened) return;
    tagged->opened = false;
    zg_arch_set_tags(zg_slab_slot_address(slab, index), slab->slot_bytes, 0);
}

// Fills the rest of the block's last granule, all of which is accessible.
static void fill_gap(uint64_t start, uint64_t size) {
    __builtin_memset((void *)(start + size), ZG_FILL_GAP, zg_round_up(size, GRANULE) - size);
}

void *zg_tags_set(const struct zg_slab *slab, uint64_t index, uint64_t size, uint64_t alignment) {
    uint64_t start = zg_slab_slot_address(slab, index);
    struct zg_tagged *tagged = known(slab, index);
    zg_tags_check_again();
    if (!tagged) return (void *)start;
    uint8_t last = tagged->tag ? tagged->tag : tagged->former_tag;
    tagged->former_tag = tagged->tag;
    tagged->tag = alignment < ZG_PAGE_BYTES ? next_tag(index, last) : 0;
    if (!tagged->tag) return (void *)start;
    fill_gap(start, size);
    __atomic_thread_fence(__ATOMIC_RELEASE); // zg_free_verify_live sees the tag only after the filled gap
    zg_arch_set_tags(start, end_of(start, size) - start, tagged->tag);
    return (void *)zg_arch_with_tag(start, tagged->tag);
}

bool zg_tags_are_given(const struct zg_slab *slab, uint64_t index) {
    const struct zg_tagged *tagged = known(slab, index);
    return tagged && tagged->tag && zg_arch_memory_tag(zg_slab_slot_address(slab, index)) == tagged->tag;
}

void zg_tags_resize(const struct zg_slab *slab, uint64_t index, uint64_t before, uint64_t size) {
    uint64_t start = zg_slab_slot_address(slab, index), old_end = end_of(start, before), end = end_of(start, size);
    const struct zg_tagged *tagged = known(slab, index);
    if (!tagged || !tagged->tag) return;
    if (end < old_end) zg_arch_set_tags(end, old_end - end, 0);
    if (end > old_end) zg_arch_set_tags(old_end, end - old_end, tagged->tag);
    fill_gap(zg_arch_with_tag(start, tagged->tag), size);
}

void zg_tags_clear(const struct zg_slab *slab, uint64_t index) {
    const struct zg_tagged *tagged = known(slab, index);
    zg_tags_check_again();
    if (tagged && tagged->tag) zg_arch_set_tags(zg_slab_slot_address(slab, index), slab->slot_bytes, 0);
}

uint64_t zg_tags_find_change(const struct zg_slab *slab, uint64_t index, uint64_t size, uint64_t *offset,
                             uint8_t *now) {
    const struct zg_tagged *tagged = known(slab, index);
    if (!tagged || !tagged->tag) return 0;
    const uint8_t *bytes = (const uint8_t *)zg_arch_with_tag(zg_slab_slot_address(slab, index), tagged->tag);
    uint64_t length = 0;
    for (uint64_t i = size, end = zg_round_up(size, GRANULE); i < end; i++) {
        if (bytes[i] == ZG_FILL_GAP) continue;
        if (!length) *offset = i, *now = bytes[i];
        length = i - *offset + 1;
    }
    return length;
}

bool zg_tags_match(const struct zg_slab *slab, uint64_t index, uint64_t pointer, uint64_t size) {
    uint64_t offset;
    uint8_t now;
    const struct zg_tagged *tagged = known(slab, index);
    return tagged && tagged->tag == zg_arch_tag(pointer) &&
           (!(size % GRANULE) || !zg_tags_find_change(slab, index, size, &offset, &now));
}

const struct zg_tagged *zg_tags_find(uint64_t address) {
    uint64_t index, interior;
    address = zg_arch_address(address);
    return zg_tags_on && zg_slab_contains(address) ? known(zg_slab_find(address, &index, &interior), index) : NULL;
}

bool zg_tags_is_stale(uint64_t pointer) {
    const struct zg_tagged *tagged = zg_tags_find(pointer);
    uint32_t tag = zg_arch_tag(pointer);
    return tagged && tag && tag != tagged->tag;
}

uint64_t zg_tags_pointer(uint64_t address) {
    const struct zg_tagged *tagged = zg_tags_find(address);
    return tagged ? zg_arch_with_tag(address, tagged->tag) : address;
}

bool zg_tags_open(uint64_t pointer) {
    uint64_t index, interior, address = zg_arch_address(pointer);
    if (!zg_tags_on || !zg_slab_contains(address)) return false;
    const struct zg_slab *slab = zg_slab_find(address, &index, &interior);
    struct zg_tagged *tagged = known(slab, index);
    if (!tagged) return false;
    tagged->opened = true;
    zg_arch_set_tags(zg_slab_slot_address(slab, index), slab->slot_bytes, zg_arch_tag(pointer));
    return true;
}

void zg_tags_disable(void) {
    zg_stats_degrade(zg_degradation_tags_lost);
    __atomic_store_n(&is_given_up, true, __ATOMIC_RELAXED);
}
