// Makes retired pages accessible again, for on_finding=continue.
// Signal context; no lock.

#include "pages/revive.h"

#include "blocks/alias.h"
#include "blocks/fill.h"
#include "blocks/span_table.h"
#include "pages/private_pages.h"
#include "pages/protect.h"
#include "platform/os.h"

// Makes the private pages of a retired block accessible. `*kept`: whether their contents were kept.
static bool open_pages(const struct zg_block_view *view, struct zg_span **span, bool *kept) {
    *span = zg_span_contains(view->start) ? zg_span_find(view->start) : NULL;
    *kept = *span && (*span)->dirty;
    if (!*span || !(*span)->protection || view->state != zg_state_retired) return false;
    void *data = (void *)(*span)->base;
    uint64_t bytes = zg_private_data_bytes(*span);
    bool by_mapping = (*span)->protection == zg_protection_mprotect || (*span)->dirty;
    if ((by_mapping ? zg_os_commit(data, bytes) : zg_os_unguard(data, bytes)) != 0) {
        // Map fresh pages instead: the contents are lost, but the program can continue.
        if (!zg_os_map_private(bytes, data)) return false;
        *kept = false;
    }
    (*span)->dirty = 1;
    return true;
}

// Prevents the allocation of another block at the page, because the page will not map the window's memory any more.
static void keep_from_windows(uint64_t address) {
    struct zg_alias *alias = zg_alias_contains(address) ? zg_alias_find(address) : NULL;
    // If the record has a window number, keep it: the thread that retires the block still needs it to give the slot
    // back.
    uint32_t given = 0;
    if (alias)
        __atomic_compare_exchange_n(&alias->window, &given, UINT32_MAX, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool zg_revive_isolated(const struct zg_block_view *view) {
    struct zg_span *span;
    bool kept;
    if (!open_pages(view, &span, &kept)) return false;
    if (!kept) zg_fill((void *)span->base, zg_private_data_bytes(span), ZG_FILL_FREED);
    struct zg_class class = zg_class_get(view->zombie ? view->death.class_number : 0);
    uint64_t *words = (uint64_t *)view->start;
    __atomic_fetch_or(&span->block.header, ZG_HEADER_CONTENTS_RESTORED, __ATOMIC_RELAXED);
    if (class.language == zg_language_unknown) return true;
    words[0] = class.pointer;
    if (class.language == zg_language_swift) words[1] = ZG_SWIFT_IMMORTAL_BITS;
    return true;
}

bool zg_revive_isolated_at(uint64_t address) {
    struct zg_block_view block;
    // Make only pages of the runtime accessible: the address of an inferred finding may lie far from the block.
    if (address - zg_isolated_map.base >= zg_isolated_map.units * ZG_PAGE_BYTES) return false;
    // The guard page in front of the first block, and pages that alignment left unused, belong to no block.
    struct zg_span *span = zg_span_find(address);
    if (span && address - span->base < zg_private_data_bytes(span))
        return zg_lookup_block(address, &block) && zg_revive_isolated(&block);
    // This page's neighbors may be protected in another way (guards or a mapping), so undo both protections.
    void *page = (void *)(address & ~(ZG_PAGE_BYTES - 1));
    bool opened = zg_os_commit(page, ZG_PAGE_BYTES) == 0, unguarded = zg_os_unguard(page, ZG_PAGE_BYTES) == 0;
    if (opened && (unguarded || zg_protection_now() == zg_protection_mprotect)) return true;
    return zg_os_map_private(ZG_PAGE_BYTES, page) != NULL;
}

bool zg_revive_page(uint64_t address) {
    void *page = (void *)(address & ~(ZG_PAGE_BYTES - 1));
    struct zg_block_view block;
    // Make only pages of the runtime accessible: the address of an inferred finding may lie far from the block.
    if (!zg_lookup_block(address, &block) || block.state != zg_state_retired) return false;
    keep_from_windows(address);
    if (zg_os_commit(page, ZG_PAGE_BYTES) != 0 && !zg_os_map_private(ZG_PAGE_BYTES, page)) return false;
    zg_fill(page, ZG_PAGE_BYTES, ZG_FILL_FREED);
    return true;
}

// Moves the pages to an address that other threads may be reading: the pages appear there at once, with their contents.
static void put_pages(void *pages, uint64_t at, uint64_t bytes) {
    if (zg_os_move(pages, (void *)at, bytes) != 0 && zg_os_commit((void *)at, bytes) == 0)
        __builtin_memcpy((void *)at, pages, bytes);
    zg_os_release(pages, bytes);
}

// Copies a class's metadata, or a virtual table, into the part of the trap region that belongs to the object, so that a
// class pointer that the program has already loaded keeps working.
static void fill_trap_window(uint64_t pointer, const struct zg_class *class) {
    uint64_t bytes = UINT64_C(1) << ZG_TRAP_ISA_SHIFT;
    char *window = zg_os_map(bytes);
    if (!window) return;
    // Unreadable pages stay zero: the class may lie near the end of its image.
    for (uint64_t done = 0; done < bytes;) {
        uint64_t from = class->pointer - ZG_TRAP_ISA_OFFSET + done;
        uint64_t wanted = zg_min(bytes - done, ZG_PAGE_BYTES - (from & (ZG_PAGE_BYTES - 1)));
        zg_os_read_memory(window + done, from, wanted);
        done += wanted;
    }
    put_pages(window, pointer - ZG_TRAP_ISA_OFFSET, bytes);
}

// Makes pointers into the trap region that the program has already loaded work as if the object were live: the object's
// part of the trap region gets the class, and the object's side table an immortal reference count.
static void open_trap_windows(const struct zg_block_view *view, const struct zg_class *class) {
    struct zg_zombie_pattern pattern = zg_zombie_pattern_at(view->start, view->zombie);
    fill_trap_window(pattern.head[0], class);
    if (class->language != zg_language_swift) return;
    // Words of a side table: object, reserved, reference counts.
    uint64_t *page = zg_os_map(ZG_PAGE_BYTES);
    if (!page) return;
    page[0] = view->start;
    page[2] = ZG_SWIFT_IMMORTAL_BITS;
    put_pages(page, ZG_TRAP_SIDE_PAGE(pattern.head[1]), ZG_PAGE_BYTES);
}

static bool restore_slot(const struct zg_block_view *view, const struct zg_class *class) {
    uint64_t number, interior;
    struct zg_slab *slab = zg_slab_find(view->start, &number, &interior);
    uint32_t header = __atomic_load_n(&view->block->header, __ATOMIC_ACQUIRE);
    // Once this bit is set, no thread verifies or reuses the slot.
    do {
        if (header & ZG_HEADER_CONTENTS_RESTORED) return true;
        if (zg_header_state(header) != zg_state_quarantined) return false;
    } while (!__atomic_compare_exchange_n(&view->block->header, &header, header | ZG_HEADER_CONTENTS_RESTORED, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    uint64_t *words = (uint64_t *)view->start;
    const uint64_t *former = (const uint64_t *)(zg_zombie_saved_contents + (view->start - zg_slabs.base));
    bool swift = class->language == zg_language_swift;
    for (uint64_t i = swift ? 2 : 1; i < slab->slot_bytes / 8; i++) words[i] = former[i];
    if (swift) __atomic_store_n(&words[1], ZG_SWIFT_IMMORTAL_BITS, __ATOMIC_RELEASE);
    __atomic_store_n(&words[0], class->pointer, __ATOMIC_RELEASE);
    return true;
}

bool zg_revive_zombie(const struct zg_zombie_hit *hit) {
    if (!zg_zombie_saved_contents || !hit->has_block) return false;
    struct zg_class class = zg_class_get(hit->block.death.class_number);
    if (class.language == zg_language_unknown) return false;
    bool done =
        zg_slab_contains(hit->block.start) ? restore_slot(&hit->block, &class) : zg_revive_isolated(&hit->block);
    if (done) open_trap_windows(&hit->block, &class);
    return done;
}
