// Verifies the red zones behind blocks in windows: the fill from the end of a block to the end of its slot.
// Slow path; takes the lock of windows.

#include "blocks/fill.h"
#include "pages/window.h"
#include "pages/window_state.h"
#include "platform/os.h"

// Records changed bytes of the fill in `change`. `offset`: distance of `fill` from the block's start.
static void compare_gap(const uint8_t *fill, uint64_t bytes, uint64_t offset, struct zg_change *change) {
    for (uint64_t i = 0; i < bytes; i++) {
        if (fill[i] == ZG_FILL_GAP) continue;
        if (!change->length) *change = (struct zg_change){.offset = offset + i, .old = ZG_FILL_GAP, .now = fill[i]};
        change->length = offset + i - change->offset + 1;
    }
}

bool zg_window_is_overrun(const struct zg_alias *alias, struct zg_change *change) {
    uint64_t size = zg_alias_size(alias);
    *change = (struct zg_change){.length = 0};
    compare_gap((const uint8_t *)zg_alias_start(alias) + size, alias->slot_bytes - size, size, change);
    return change->length != 0;
}

// Returns the window of the block; NULL if the block's slot was given back.
static const struct zg_window *window_of(const struct zg_alias *alias) {
    uint32_t number = __atomic_load_n(&alias->window, __ATOMIC_RELAXED);
    return number && number != UINT32_MAX ? zg_window_by_number(number) : NULL;
}

// Verifies the red zone of a live block through the chunk's own mapping. The page in the window may be inaccessible:
// another thread may free the block and guard its page meanwhile, or the program may have protected the page. Once
// windows have become private pages, a system call copies the bytes instead. False if nothing changed.
static bool find_change(const struct zg_alias *alias, struct zg_change *change) {
    uint64_t size = zg_alias_size(alias), end = alias->slot_bytes;
    *change = (struct zg_change){.length = 0};
    const struct zg_window *window = window_of(alias);
    if (!window || size >= end) return false;
    if (!zg_windows.are_private) {
        uint64_t page = zg_alias_number(alias) - window->first;
        uint64_t slot = zg_window_chunk(window)->memory + page * ZG_PAGE_BYTES + alias->start;
        compare_gap((const uint8_t *)slot + size, end - size, size, change);
        return change->length != 0;
    }
    uint8_t copy[64];
    for (uint64_t at = size, bytes; at < end; at += bytes) {
        bytes = zg_min(end - at, sizeof copy);
        if (zg_os_read_memory(copy, zg_alias_start(alias) + at, bytes) != bytes) return false;
        compare_gap(copy, bytes, at, change);
    }
    return change->length != 0;
}

static bool is_unreported(uint32_t header) {
    return zg_header_state(header) == zg_state_live && !(header & ZG_HEADER_CHANGED);
}

static bool verify_block(struct zg_alias *alias, const char *found_by) {
    uint32_t header = __atomic_load_n(&alias->block.header, __ATOMIC_ACQUIRE);
    struct zg_change change;
    if (!is_unreported(header) || !find_change(alias, &change)) return false;
    // Verify again under the lock, so that the page cannot get another block. The compare-and-swap fails if another
    // thread has freed the block or reported the change.
    zg_windows_take_lock();
    header = __atomic_load_n(&alias->block.header, __ATOMIC_ACQUIRE);
    bool is_changed = is_unreported(header) && find_change(alias, &change);
    is_changed = is_changed && __atomic_compare_exchange_n(&alias->block.header, &header, header | ZG_HEADER_CHANGED,
                                                           false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    zg_windows_drop_lock();
    struct zg_block_view view;
    if (is_changed && zg_lookup_block(zg_alias_start(alias), &view)) zg_found_overrun(&view, &change, found_by);
    return is_changed;
}

uint64_t zg_window_verify_live(const char *found_by) {
    uint64_t found = 0, end = __atomic_load_n(&zg_alias_area.covered, __ATOMIC_ACQUIRE);
    // A child that lacks its parent's windows (zg_window_fault) has no blocks to verify.
    if (!zg_windows.are_private && zg_load(&zg_windows.owner) != (uint64_t)zg_os_pid()) return 0;
    end = zg_min(end, zg_load(&zg_windows.used_pages));
    for (uint64_t page = 0; page < end; page++) found += verify_block(&zg_alias_area.aliases[page], found_by);
    return found;
}
