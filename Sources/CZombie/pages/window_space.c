// Manages the address space of windows, which are open, closed or free.
// Slow path; under the lock of windows.

#include "pages/window_space.h"

#include "pages/conditions.h"
#include "pages/protect.h"
#include "pages/window_switch.h"
#include "platform/os.h"
#include "pressure/pressure.h"
#include "settings/config.h"
#include "settings/stats.h"

// Memory that one page of a window costs: its record, and its page table entry.
enum { PAGE_PRICE = sizeof(struct zg_alias) + sizeof(uint64_t) };

static struct zg_queue_links closed_links(void) {
    return ZG_QUEUE_LINKS(&zg_windows.windows[1], struct zg_window, next);
}
static struct zg_queue_links unmap_links(void) {
    return ZG_QUEUE_LINKS(&zg_windows.windows[1], struct zg_window, next_to_unmap);
}

void zg_window_space_note_mapped(struct zg_window *window, uint32_t pages) {
    window->mapped += pages;
    zg_windows.to_unmap.amount += pages;
}
void zg_window_space_note_unmapped(struct zg_window *window, uint32_t pages) {
    pages = (uint32_t)zg_min(pages, window->mapped);
    window->mapped -= pages;
    zg_windows.to_unmap.amount -= pages;
}

// --- free windows ---------------------------------------------------------------------------------------------------

static uint32_t *free_list(uint32_t pages) {
    return &zg_windows.free_windows[__builtin_ctz(pages / ZG_POLICY_CHUNK_PAGES_LEAST)];
}

// Adds the window to the free list of its size.
static void add_free(uint32_t number) {
    struct zg_window *window = zg_window_by_number(number);
    uint32_t *list = free_list(window->pages);
    window->next = *list;
    *list = number;
}

// Clears the records of a closed window's blocks, and makes the window free.
static void forget(uint32_t number) {
    struct zg_window *window = zg_window_by_number(number);
    uint32_t forgotten = 0;
    for (uint64_t page = window->first; page < window->first + window->pages; page++) {
        struct zg_alias *alias = &zg_alias_area.aliases[page];
        forgotten += alias->slot_bytes != 0;
        alias->slot_bytes = 0;
        alias->window = 0;
        __atomic_store_n(&alias->block.header, zg_block_header(zg_state_fresh, zg_family_malloc, 0), __ATOMIC_RELEASE);
    }
    zg_stats_add(zg_counter_retired_blocks, -(uint64_t)forgotten);
    zg_stats_add(zg_counter_retired_bytes, -(uint64_t)forgotten * ZG_PAGE_BYTES);
    window->phase = zg_window_free;
    add_free(number);
}

// Clears the records of the windows that were closed first, while closed windows have too many records.
static void forget_oldest(void) {
    struct zg_isolation_conditions conditions = zg_conditions_now();
    uint64_t most = zg_policy_closed_pages_most(&conditions, zg_config.retired_bytes, sizeof(struct zg_alias));
    while (zg_queue_is_over(&zg_windows.closed, most)) {
        uint32_t number = zg_queue_take(&zg_windows.closed, closed_links());
        zg_windows.closed.amount -= zg_window_by_number(number)->pages;
        forget(number);
    }
}

// --- opening and closing --------------------------------------------------------------------------------------------

// Returns the first unused page of the area, rounded up to the alignment of the kernel's fault-around, so that one page
// fault maps all of the first pages of a window.
static uint64_t first_unused_page(uint32_t pages) {
    return zg_round_up(zg_windows.used_pages, zg_min(pages, ZG_POLICY_POPULATED_PAGES));
}

// Makes the records for a window at unused addresses accessible. False if there is no room for the window.
static bool prepare_unused(uint64_t first, uint32_t pages) {
    return first + pages <= zg_alias_area.pages && zg_windows_make_room_for_window() && zg_alias_cover(first + pages);
}

static bool map_window(const struct zg_chunk *chunk, uint64_t first) {
    if (!zg_mappings_take(1)) return false;
    void *start = (void *)zg_window_page_address(first);
    if (zg_os_map_window((void *)chunk->memory, zg_chunk_bytes(chunk), start) == 0) return true;
    zg_mappings_give(1);
    // The kernel may have unmapped the range: reserve its addresses again.
    zg_os_blank(start, zg_chunk_bytes(chunk));
    return false;
}

bool zg_window_space_open(struct zg_chunk *chunk) {
    uint32_t *list = free_list(chunk->pages), number = *list;
    uint64_t first = first_unused_page(chunk->pages);
    if (number) {
        *list = zg_window_by_number(number)->next;
        first = zg_window_by_number(number)->first;
    } else if (!prepare_unused(first, chunk->pages)) {
        return false;
    }
    if (!map_window(chunk, first)) {
        if (number) add_free(number);
        return false;
    }
    if (!number) {
        number = zg_windows.window_count++;
        zg_windows.used_pages = first + chunk->pages;
        zg_pressure_note_taken(chunk->pages * PAGE_PRICE);
    }
    struct zg_window *window = zg_window_by_number(number);
    window->first = first;
    window->chunk = zg_chunk_number(chunk);
    window->pages = chunk->pages;
    window->phase = zg_window_open;
    window->has_lifetimes = false;
    window->mapped = 0;
    window->next = chunk->newest_window;
    chunk->newest_window = chunk->current_window = number;
    chunk->cursor = chunk->populated = 0;
    for (uint32_t word = 0; word < ZG_PAGE_WORDS; word++) chunk->reusable[word] = UINT64_MAX;
    zg_windows.classes[chunk->class].opened_windows++;
    return true;
}

// Removes the window from its chunk's list of open windows.
static void unlink_open(uint32_t number) {
    uint32_t *link = &zg_window_chunk(zg_window_by_number(number))->newest_window;
    while (*link != number) link = &zg_window_by_number(*link)->next;
    *link = zg_window_by_number(number)->next;
}

void zg_window_space_close(uint32_t number) {
    struct zg_window *window = zg_window_by_number(number);
    if (zg_os_blank(zg_window_start(window), zg_window_bytes_of(window)) != 0) {
        // Some of the window's pages may not be guarded yet.
        if (zg_os_guard(zg_window_start(window), zg_window_bytes_of(window)) != 0) zg_window_stop();
        return;
    }
    zg_mappings_give(1);
    zg_window_space_note_unmapped(window, window->mapped);
    window->phase = zg_window_closed;
    unlink_open(number);
    zg_queue_add(&zg_windows.closed, closed_links(), number);
    zg_windows.closed.amount += window->pages;
    forget_oldest();
}

// --- pages in the page tables ---------------------------------------------------------------------------------------

// Removes the pages of the windows that were retired first from the page tables, because each mapped page counts as
// resident memory. The contents stay in the chunk's memory, and the next access to a block there costs a page fault.
// Guards stay.
static void unmap_oldest(void) {
    struct zg_isolation_conditions conditions = zg_conditions_now();
    uint64_t most = zg_policy_mapped_pages_most(&conditions);
    while (zg_queue_is_over(&zg_windows.to_unmap, most)) {
        uint32_t number = zg_queue_take(&zg_windows.to_unmap, unmap_links());
        struct zg_window *window = zg_window_by_number(number);
        window->is_queued_to_unmap = false;
        // The window may have been closed, and its number reused for another window that is not retired.
        if (window->phase != zg_window_open || zg_window_is_current(number)) continue;
        if (window->mapped) zg_os_discard(zg_window_start(window), zg_window_bytes_of(window));
        zg_window_space_note_unmapped(window, window->mapped);
    }
}

void zg_window_space_queue_for_unmap(uint32_t number) {
    struct zg_window *window = zg_window_by_number(number);
    if (!zg_conditions_has_few_in_windows()) return;
    if (!window->is_queued_to_unmap) {
        window->is_queued_to_unmap = true;
        zg_queue_add(&zg_windows.to_unmap, unmap_links(), number);
    }
    unmap_oldest();
}
