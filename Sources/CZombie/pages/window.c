// Allocates blocks in windows, and releases the memory of empty chunks.
// Slow path; takes the lock of windows.

#include "pages/window.h"

#include "blocks/fill.h"
#include "pages/chunk_class.h"
#include "pages/chunk_slots.h"
#include "pages/conditions.h"
#include "pages/lifetimes.h"
#include "platform/os.h"
#include "settings/coverage.h"

// Returns the chunk that the class allocates from, with its cursor at a page for the next block. NULL if there is none.
// Under the lock.
static struct zg_chunk *find_chunk(uint32_t class) {
    struct zg_chunk *chunk = zg_chunk_class_current(class);
    // The next chunk may have no page for its window either, so try twice.
    for (int tries = 0; (!chunk || !zg_chunk_find_page(chunk)) && tries < 2; tries++)
        if (!(chunk = zg_chunk_class_advance(class))) return NULL;
    return zg_chunk_find_page(chunk) ? chunk : NULL;
}

struct zg_alias *zg_window_allocate(uint64_t size, uint64_t alignment, bool zero, uint32_t context) {
    struct zg_isolation_conditions conditions = zg_conditions_now();
    uint32_t slot_class = zg_policy_slot_class(&conditions, size, alignment);
    if (slot_class == ZG_CLASS_COUNT) return NULL;
    uint32_t class = zg_chunk_class_number(slot_class, zg_lifetime_is_long(context));
    zg_windows_take_lock();
    struct zg_chunk *chunk = find_chunk(class);
    struct zg_alias *alias = chunk ? zg_chunk_take_slot(chunk) : NULL;
    // Fill the red zone under the lock: another thread's fork may copy the page afterwards, and its child verifies the
    // red zones of live blocks.
    if (alias) __builtin_memset((char *)zg_alias_start(alias) + size, ZG_FILL_GAP, alias->slot_bytes - size);
    enum zg_coverage_reason reason = zg_windows.lacking;
    zg_windows_drop_lock();
    if (!alias) {
        zg_coverage_declined(reason);
        return NULL;
    }
    if (zero) __builtin_memset((void *)zg_alias_start(alias), 0, size);
    return alias;
}

uint64_t zg_window_bytes(void) { return zg_load(&zg_windows.memory_bytes); }

uint64_t zg_window_trim(void) {
    uint64_t given = 0;
    if (!zg_windows_has_chunks() || !zg_window_is_on()) return 0;
    zg_windows_take_lock();
    for (uint32_t number = 1; number < zg_windows.chunk_count; number++) {
        struct zg_chunk *chunk = zg_chunk_by_number(number);
        if (chunk->live || chunk->is_empty) continue;
        if (zg_os_remove((void *)chunk->memory, zg_chunk_bytes(chunk)) != 0) continue;
        chunk->is_empty = true;
        chunk->touched = 0;
        given += zg_chunk_bytes(chunk);
    }
    zg_windows_drop_lock();
    return given;
}

void zg_window_lock(void) { zg_windows_take_lock(); }
void zg_window_unlock(bool reset) {
    if (reset) zg_lock_reset(&zg_windows.lock);
    else zg_windows_drop_lock();
}

#ifdef ZG_CHECK_INVARIANTS
static const char *broken_chunk(const struct zg_chunk *chunk) {
    uint32_t live = 0, open_pages = 0;
    for (uint32_t page = 0; page < chunk->pages; page++) {
        uint32_t used = 0;
        for (uint32_t word = 0; word < ZG_SLOTS_MOST / 64; word++)
            used += (uint32_t)__builtin_popcountll(chunk->used[page][word]);
        if (used + chunk->free_slots[page] != chunk->slots)
            return "a page of a chunk has another number of free slots than is counted";
        live += used;
        open_pages += chunk->free_slots[page] != 0;
    }
    bool is_valid = live == chunk->live && open_pages == chunk->open_pages && chunk->cursor <= chunk->pages &&
                    chunk->populated <= chunk->pages && chunk->touched <= chunk->pages;
    return is_valid ? NULL : "a chunk's blocks are not as it counts";
}

static const char *broken_window(const struct zg_window *window) {
    uint32_t live = 0;
    for (uint64_t page = window->first; page < window->first + window->pages; page++) {
        enum zg_state state = zg_header_state(zg_alias_area.aliases[page].block.header);
        live += state == zg_state_live || state == zg_state_quarantined;
    }
    bool is_valid = window->phase == zg_window_open ? live == window->live : live == 0;
    return is_valid ? NULL : "a window's blocks are not as it counts";
}

const char *zg_window_broken(void) {
    if (!zg_windows_has_chunks()) return NULL;
    const char *broken = NULL;
    zg_windows_take_lock();
    uint64_t bytes = 0;
    for (uint32_t number = 1; number < zg_windows.chunk_count && !broken; number++) {
        broken = broken_chunk(zg_chunk_by_number(number));
        bytes += zg_chunk_bytes(zg_chunk_by_number(number));
    }
    for (uint32_t number = 1; number < zg_windows.window_count && !broken; number++)
        broken = broken_window(zg_window_by_number(number));
    if (!broken && bytes != zg_windows.memory_bytes) broken = "chunks take another number of bytes than is counted";
    zg_windows_drop_lock();
    return broken;
}
#endif
