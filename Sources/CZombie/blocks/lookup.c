// Address to block. Any context; takes no lock.

#include "blocks/lookup.h"

#include "blocks/alias.h"
#include "blocks/slab.h"
#include "blocks/span_table.h"

uint64_t zg_lookup_low, zg_lookup_bytes;

void zg_lookup_init(void) {
    uint64_t spans, spans_bytes;
    zg_span_area(&spans, &spans_bytes);
    zg_lookup_low = zg_min(zg_slabs.base, spans);
    uint64_t end = zg_max(zg_slabs.base + zg_slabs.bytes, spans + spans_bytes);
    if (zg_alias_area.pages) end = zg_max(end, zg_alias_area.base + zg_alias_area.pages * ZG_PAGE_BYTES);
    zg_lookup_bytes = end - zg_lookup_low;
}

bool zg_lookup_is_ours(uint64_t address) {
    return zg_slab_contains(address) || zg_span_contains(address) || zg_alias_contains(address);
}

static void fill_view(struct zg_block_view *view, struct zg_block *block, const struct zg_death *death) {
    uint32_t header = __atomic_load_n(&block->header, __ATOMIC_ACQUIRE);
    view->block = block;
    view->state = zg_header_state(header);
    view->kind = zg_header_kind(header);
    view->zombie = view->state >= zg_state_quarantined ? zg_header_zombie(header) : 0;
    view->death = view->zombie ? *death : (struct zg_death){0, 0};
    // Another thread may be making or freeing the block meanwhile: each word is one or the other, and the caller looks again.
    view->alloc_stack = __atomic_load_n(&block->alloc_stack, __ATOMIC_RELAXED);
    view->free_stack = view->state == zg_state_live ? 0 : __atomic_load_n(&block->free_stack, __ATOMIC_RELAXED);
    view->alloc_thread = __atomic_load_n(&block->alloc_thread, __ATOMIC_RELAXED);
    view->free_thread = view->state == zg_state_live ? 0 : __atomic_load_n(&block->free_thread, __ATOMIC_RELAXED);
}

// A free slot may be retired with its neighbours, a new span take the pages of a dead one. (Threads at their end have the number 0, too, but stacks.)
static bool never_was_a_block(const struct zg_block_view *view) {
    return view->state >= zg_state_quarantined && !view->alloc_thread && !view->alloc_stack && !view->free_stack;
}

bool zg_lookup_block(uint64_t address, struct zg_block_view *view) {
    if (zg_slab_contains(address)) {
        uint64_t index, interior;
        struct zg_slab *slab = zg_slab_find(address, &index, &interior);
        if (index >= __atomic_load_n(&slab->used, __ATOMIC_ACQUIRE)) return false;
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

bool zg_lookup_is_fenced(const struct zg_block_view *view) {
    if (zg_alias_contains(view->start)) return true;
    const struct zg_span *span = zg_slab_contains(view->start) ? NULL : zg_span_find(view->start);
    return span && span->fenced;
}

// A block that is just being filled is, for its user, as dead as a quarantined one.
const char *zg_lookup_state_name(enum zg_state state) {
    return zg_block_state_text(state == zg_state_freeing ? zg_state_quarantined : state);
}

const char *zg_lookup_kind_name(enum zg_kind kind) {
    const char *name = zg_block_kind_text(kind);
    return name ? name : "unknown";
}
