// Finds the block at an address. Any context; takes no lock.

#include "blocks/lookup.h"

#include "blocks/alias.h"
#include "blocks/slab.h"
#include "blocks/span_table.h"
#include "blocks/tags.h"

uint64_t zg_lookup_low, zg_lookup_bytes;

void zg_lookup_init(void) {
    uint64_t spans, spans_bytes;
    zg_span_area(&spans, &spans_bytes);
    zg_lookup_low = zg_min(zg_slabs.base, spans);
    uint64_t end = zg_max(zg_slabs.base + zg_slabs.bytes, spans + spans_bytes);
    if (zg_alias_area.pages) end = zg_max(end, zg_alias_area.base + zg_alias_area.pages * ZG_PAGE_BYTES);
    zg_lookup_bytes = end - zg_lookup_low;
}

bool zg_lookup_is_in_heap(uint64_t pointer) {
    uint64_t address = zg_arch_address(pointer);
    return zg_slab_contains(address) || zg_span_contains(address) || zg_alias_contains(address);
}

static void fill_view(struct zg_block_view *view, struct zg_block *block, const struct zg_death *death) {
    uint32_t header = __atomic_load_n(&block->header, __ATOMIC_ACQUIRE);
    view->block = block;
    view->state = zg_header_state(header);
    view->family = zg_header_family(header);
    view->zombie = view->state >= zg_state_quarantined ? zg_header_zombie(header) : 0;
    view->death = view->zombie ? *death : (struct zg_death){0, 0};
    // Another thread may be making or freeing the block, so the view may mix old and new words. A caller that needs a
    // consistent view repeats the lookup.
    view->alloc_stack = __atomic_load_n(&block->alloc_stack, __ATOMIC_RELAXED);
    view->free_stack = view->state == zg_state_live ? 0 : __atomic_load_n(&block->free_stack, __ATOMIC_RELAXED);
    view->alloc_thread = __atomic_load_n(&block->alloc_thread, __ATOMIC_RELAXED);
    view->free_thread = view->state == zg_state_live ? 0 : __atomic_load_n(&block->free_thread, __ATOMIC_RELAXED);
}

// Whether the slot or span was never a block, although its record's state is that of a freed block: a free slot may be
// retired with its neighbors, and a new span may take over the pages of a freed span. Such a record names no thread and
// no stack. (Exiting threads also have the number 0, but their blocks' records name stacks.)
static bool never_was_a_block(const struct zg_block_view *view) {
    return view->state >= zg_state_quarantined && !view->alloc_thread && !view->alloc_stack && !view->free_stack;
}

// True if the pointer has the tag of the slot's previous block. The view is then of that block, in state reusable.
static ZG_COLD bool find_former(uint64_t pointer, const struct zg_slab *slab, uint64_t interior,
                                struct zg_block_view *view) {
    const struct zg_tagged *tagged = zg_tags_find(pointer);
    if (zg_arch_tag(pointer) != tagged->former_tag || !tagged->former.header) return false;
    struct zg_block former = tagged->former;
    former.header = zg_header_in_state(former.header, zg_state_reusable);
    fill_view(view, &former, &tagged->former_death);
    view->block = (struct zg_block *)&tagged->former;
    view->start = zg_arch_address(pointer) - interior;
    view->size = zg_slab_requested(slab, former.header);
    view->offset = (int64_t)interior;
    return true;
}

bool zg_lookup_block(uint64_t pointer, struct zg_block_view *view) {
    uint64_t address = zg_arch_address(pointer);
    if (zg_slab_contains(address)) {
        uint64_t index, interior;
        struct zg_slab *slab = zg_slab_find(address, &index, &interior);
        if (index >= __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE)) return false;
        if (zg_tags_are_on() && zg_tags_is_stale(pointer)) return find_former(pointer, slab, interior, view);
        struct zg_block *block = &slab->blocks[index];
        fill_view(view, block, &slab->deaths[index]);
        if (view->state == zg_state_fresh || never_was_a_block(view)) return false;
        view->start = address - interior;
        view->size = zg_slab_requested(slab, __atomic_load_n(&block->header, __ATOMIC_RELAXED));
        view->offset = (int64_t)interior;
        return true;
    }
    if (zg_alias_contains(address)) {
        struct zg_alias *alias = zg_alias_find(address);
        if (!alias) return false;
        fill_view(view, &alias->block, &alias->death);
        view->start = zg_alias_start(alias);
        view->size = zg_alias_size(alias);
        view->offset = (int64_t)(address - view->start);
        return view->state != zg_state_fresh;
    }
    struct zg_span *span = zg_span_find(address);
    if (!span) return false;
    fill_view(view, &span->block, &span->death);
    if (view->state == zg_state_fresh || never_was_a_block(view)) return false;
    view->start = zg_load(&span->start);
    view->size = zg_load(&span->size);
    view->offset = (int64_t)(address - view->start);
    return true;
}

void zg_lookup_strip(uint64_t *words, int count) {
    for (int i = 0; i < count; i++)
        if (zg_arch_tag(words[i]) && zg_lookup_is_in_heap(words[i])) words[i] = zg_arch_address(words[i]);
}

// Number of slots that zg_lookup_by_tag searches in each direction, and number of bytes in front of a class's first
// slot that zg_lookup_is_in_front accepts. These bytes are the unused end of the previous class's region.
enum { NEAR_SLOTS = 64, LAST_BYTES = 64 << 10 };

static bool has_tag(const struct zg_slab *slab, uint64_t index, uint64_t address, struct zg_block_view *view) {
    const struct zg_tagged *tagged = zg_tags_find(zg_slab_slot_address(slab, index));
    if (!tagged || tagged->tag != zg_arch_tag(address) || !zg_lookup_block(zg_slab_slot_address(slab, index), view))
        return false;
    view->offset = (int64_t)(zg_arch_address(address) - view->start);
    return view->state != zg_state_reusable;
}

bool zg_lookup_by_tag(uint64_t pointer, struct zg_block_view *view, uint32_t *distance) {
    uint64_t index, interior, address = zg_arch_address(pointer);
    if (!zg_tags_are_on() || !zg_arch_tag(pointer) || !zg_slab_contains(address)) return false;
    *distance = 0;
    if (zg_lookup_block(pointer, view)) return true;
    const struct zg_slab *slab = zg_slab_find(address, &index, &interior);
    bool is_last = zg_lookup_is_in_front(address);
    for (uint32_t i = *distance = 1; i <= NEAR_SLOTS; *distance = ++i) {
        if (i <= index && has_tag(slab, index - i, pointer, view)) return true;
        if (has_tag(is_last ? slab + 1 : slab, is_last ? i - 1 : index + i, pointer, view)) return true;
    }
    return false;
}

bool zg_lookup_is_in_front(uint64_t address) {
    const struct zg_slab *next = zg_slabs.slab + 1, *end = zg_slabs.slab + ZG_CLASS_COUNT;
    while (next < end && next->base <= address) next++;
    return next < end && next->base - address <= LAST_BYTES && address >= zg_slabs.base;
}

bool zg_lookup_is_isolated(const struct zg_block_view *view) {
    if (zg_alias_contains(view->start)) return true;
    const struct zg_span *span = zg_slab_contains(view->start) ? NULL : zg_span_find(view->start);
    return span && span->protection;
}

// A block in state freeing counts as quarantined, because for the user there is no difference.
const char *zg_lookup_state_name(enum zg_state state) {
    return zg_block_state_text(state == zg_state_freeing ? zg_state_quarantined : state);
}

const char *zg_lookup_family_name(enum zg_alloc_family family) {
    const char *name = zg_block_family_text(family);
    return name ? name : "unknown";
}
