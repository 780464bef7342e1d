// Chooses the chunk and the window that a chunk class allocates from.
// Slow path; under the lock of windows.

#include "pages/chunk_class.h"

#include "pages/conditions.h"
#include "pages/lifetimes.h"
#include "pages/window_space.h"
#include "platform/os.h"
#include "pressure/pressure.h"

// --- lists of chunks ------------------------------------------------------------------------------------------------

static bool is_worth_entering(const struct zg_chunk *chunk) {
    struct zg_isolation_conditions conditions = zg_conditions_now();
    return zg_policy_is_worth_entering(&conditions, chunk->pages, chunk->open_pages);
}

void zg_chunk_class_list(struct zg_chunk *chunk) {
    if (chunk->is_listed || chunk->is_current || !is_worth_entering(chunk)) return;
    struct zg_chunk_class *class = &zg_windows.classes[chunk->class];
    chunk->is_listed = true;
    chunk->next_worthy = class->worthy;
    class->worthy = zg_chunk_number(chunk);
}

// Takes a chunk with enough free pages for a window from the class's list. NULL if there is none.
static struct zg_chunk *take_listed(struct zg_chunk_class *class) {
    while (class->worthy) {
        struct zg_chunk *chunk = zg_chunk_by_number(class->worthy);
        class->worthy = chunk->next_worthy;
        chunk->is_listed = false;
        if (is_worth_entering(chunk)) return chunk;
    }
    return NULL;
}

static struct zg_chunk *make_chunk(uint32_t number) {
    struct zg_chunk_class *class = &zg_windows.classes[number];
    uint32_t pages = zg_policy_next_chunk_pages(class->chunk_pages);
    uint64_t bytes = pages * ZG_PAGE_BYTES;
    zg_windows.lacking = zg_coverage_reason_address_space;
    if (zg_windows.chunk_count == ZG_POLICY_CHUNKS_MOST) return NULL;
    if (zg_windows.memory_bytes + bytes > zg_conditions_memory_most(false, &zg_windows.lacking)) return NULL;
    zg_windows.lacking = zg_coverage_reason_refused;
    if (!zg_windows_make_room_for_chunk()) return NULL;
    void *memory = zg_os_map_common(bytes);
    if (!memory) return NULL;
    uint32_t slot_bytes = zg_class_bytes(number / 2), slots = ZG_PAGE_BYTES / slot_bytes;
    struct zg_chunk *chunk = zg_chunk_by_number(zg_windows.chunk_count++);
    *chunk = (struct zg_chunk){.memory = (uint64_t)memory,
                               .pages = (uint16_t)pages,
                               .slots = (uint16_t)slots,
                               .slot_bytes = (uint16_t)slot_bytes,
                               .open_pages = (uint16_t)pages,
                               .class = (uint8_t)number};
    for (uint32_t page = 0; page < pages; page++) chunk->free_slots[page] = (uint8_t)slots;
    class->chunk_pages = (uint16_t)pages;
    class->opened_windows = 0;
    zg_store(&zg_windows.memory_bytes, zg_windows.memory_bytes + bytes);
    zg_pressure_note_taken(bytes);
    return chunk;
}

// --- retired windows ------------------------------------------------------------------------------------------------

// Records the contexts of the window's live blocks as long-lived: most blocks of that age have been freed.
static void record_lifetimes(uint32_t number) {
    struct zg_window *window = zg_window_by_number(number);
    // The window may have been closed and its number reused for another window.
    if (window->phase != zg_window_open || window->has_lifetimes || zg_window_is_current(number)) return;
    window->has_lifetimes = true;
    for (uint64_t page = window->first; page < window->first + window->pages; page++) {
        const struct zg_block *block = &zg_alias_area.aliases[page].block;
        if (zg_header_state(__atomic_load_n(&block->header, __ATOMIC_RELAXED)) == zg_state_live)
            zg_lifetime_lasted(__atomic_load_n(&block->alloc_stack, __ATOMIC_RELAXED));
    }
}

// Retires the window: no more blocks are allocated in it.
static void retire_window(struct zg_chunk_class *class, uint32_t number) {
    uint32_t *place = &class->retired[class->retired_count++ % ZG_POLICY_LIFETIME_WINDOWS];
    if (*place) record_lifetimes(*place);
    *place = number;
    const struct zg_window *window = zg_window_by_number(number);
    if (window->phase == zg_window_open && !window->live) zg_window_space_close(number);
    else zg_window_space_queue_for_unmap(number);
}

// --- reused windows -------------------------------------------------------------------------------------------------

// Finds the chunk's pages that have a free slot and no block of the window, and sets a bit for each. Returns their
// number.
static uint32_t find_reusable(const struct zg_chunk *chunk, uint32_t number, uint64_t bits[ZG_PAGE_WORDS]) {
    uint64_t first = zg_window_by_number(number)->first;
    uint32_t count = 0;
    for (uint32_t word = 0; word < ZG_PAGE_WORDS; word++) bits[word] = 0;
    for (uint32_t page = 0; page < chunk->pages; page++) {
        if (!chunk->free_slots[page] || zg_alias_area.aliases[first + page].window) continue;
        bits[page / 64] |= UINT64_C(1) << page % 64;
        count++;
    }
    return count;
}

// Makes a retired window current again. Pages whose blocks were freed are reused, which costs no further record, page
// table or mapping. Pages of blocks that are freed from now on are not reused until the window becomes current again.
// False if no window of the chunk has enough reusable pages.
static bool reuse_window(struct zg_chunk *chunk) {
    for (uint32_t number = chunk->newest_window; number; number = zg_window_by_number(number)->next) {
        if (number == chunk->current_window) continue; // about to be retired
        uint32_t count = find_reusable(chunk, number, chunk->reusable);
        if (!zg_policy_has_enough_reusable_pages(chunk->pages, count)) continue;
        chunk->current_window = number;
        chunk->cursor = 0;
        chunk->populated = chunk->pages; // clear_page makes pages accessible one by one
        return true;
    }
    return false;
}

// Gives the chunk another window. If memory is narrow, tries first to reuse one of the chunk's retired windows.
// Otherwise opens a new window; false if too few of the chunk's pages have free slots, or if it cannot be mapped.
static bool enter_window(struct zg_chunk *chunk) {
    if (zg_conditions_is_narrow() && reuse_window(chunk)) return true;
    return zg_policy_has_enough_free_pages(chunk->pages, chunk->open_pages) && zg_window_space_open(chunk);
}

// --- choice ---------------------------------------------------------------------------------------------------------

// Returns a chunk with free slots, or a new one. NULL if memory does not suffice. `last`: the current chunk, or NULL.
static struct zg_chunk *choose_chunk(uint32_t number, struct zg_chunk *last) {
    struct zg_chunk_class *class = &zg_windows.classes[number];
    struct zg_isolation_conditions conditions = zg_conditions_now();
    struct zg_chunk *chunk = NULL;
    if (zg_policy_wants_larger_chunk(&conditions, class->opened_windows, class->chunk_pages, zg_windows.memory_bytes))
        chunk = make_chunk(number);
    if (!chunk && last && is_worth_entering(last)) chunk = last;
    if (!chunk) chunk = take_listed(class);
    if (!chunk) chunk = make_chunk(number);
    // If there is no memory for another chunk, mix lifetimes: free slots of the same size in the other lifetime class
    // would otherwise stay unused.
    if (!chunk) chunk = take_listed(&zg_windows.classes[number ^ 1]);
    return chunk;
}

struct zg_chunk *zg_chunk_class_advance(uint32_t number) {
    struct zg_chunk_class *class = &zg_windows.classes[number];
    struct zg_chunk *last = zg_chunk_class_current(number);
    uint32_t retired = last ? last->current_window : 0;
    struct zg_chunk *chunk = choose_chunk(number, last);
    if (chunk) zg_windows.lacking = zg_coverage_reason_refused;
    if (!chunk || !enter_window(chunk)) {
        // If memory is narrow, this chunk is not listed now, so that other chunks are tried first. It is listed again
        // when more of its blocks are freed.
        if (chunk && !zg_conditions_is_narrow()) zg_chunk_class_list(chunk);
        if (chunk != last) return NULL;
        chunk = NULL;
    }
    if (retired && chunk != last) last->current_window = 0;
    if (last && chunk != last) {
        last->is_current = false;
        zg_chunk_class_list(last);
    }
    class->current = chunk ? zg_chunk_number(chunk) : 0;
    if (chunk) chunk->is_current = true;
    if (retired) retire_window(class, retired);
    return chunk;
}
