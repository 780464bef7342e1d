// Guards the pages of freed blocks in windows: each page at once, or later together with other pending pages of its
// window.
// Slow path; takes the lock of windows, and makes system calls without it.

#include "blocks/fill.h"
#include "pages/chunk_slots.h"
#include "pages/conditions.h"
#include "pages/window.h"
#include "pages/window_space.h"
#include "platform/arch.h"
#include "platform/clock.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "zombies/zombie.h"

static struct zg_queue_links pending_links(void) {
    return ZG_QUEUE_LINKS(&zg_windows.windows[1], struct zg_window, next_pending);
}

static void set_retired(struct zg_alias *alias) {
    uint32_t header = __atomic_load_n(&alias->block.header, __ATOMIC_RELAXED);
    __atomic_store_n(&alias->block.header, zg_header_in_state(header, zg_state_retired), __ATOMIC_RELEASE);
}

// --- pending pages --------------------------------------------------------------------------------------------------

// Reports a write to the freed block since it was filled.
static void verify_fill(struct zg_alias *alias) {
    uint64_t start = zg_alias_start(alias), bytes = zg_round_up(zg_alias_size(alias), 16);
    uint32_t header = __atomic_load_n(&alias->block.header, __ATOMIC_RELAXED);
    if (header & (ZG_HEADER_CONTENTS_RESTORED | ZG_HEADER_CHANGED)) return;
    struct zg_zombie_pattern pattern = {{ZG_FILL_WORD, ZG_FILL_WORD}, ZG_FILL_WORD, 0};
    if (zg_header_zombie(header)) pattern = zg_zombie_pattern_at(start, header);
    if (ZG_LIKELY(zg_zombie_is_written((const void *)start, bytes, pattern))) return;
    struct zg_change change = {.offset = bytes};
    for (uint64_t i = 0; i < bytes; i++) {
        uint8_t found = *(const uint8_t *)(start + i),
                expected = (uint8_t)(zg_zombie_word(pattern, i / 8) >> i % 8 * 8);
        if (found == expected) continue;
        if (change.offset == bytes) change = (struct zg_change){.offset = i, .old = expected, .now = found};
        change.length = i - change.offset + 1;
    }
    struct zg_block_view view;
    if (zg_lookup_block(start, &view)) zg_found_write_after_free(&view, &change, "eviction");
}

// Guards pages of one window, adjacent pages in one call. If they hold the last blocks of the window, and the window is
// not its chunk's current one, closes the window instead.
static void guard_pages(const uint32_t *pages, uint32_t count) {
    uint32_t number = zg_alias_area.aliases[pages[0]].window;
    zg_windows_take_lock();
    bool is_whole = zg_window_by_number(number)->live == count && !zg_window_is_current(number);
    if (!is_whole) zg_windows_drop_lock();
    bool is_guarded = true;
    for (uint32_t i = 0, end; i < count && !is_whole; i = end) {
        for (end = i + 1; end < count && pages[end] == pages[end - 1] + 1;) end++;
        is_guarded &= zg_os_guard((void *)zg_window_page_address(pages[i]), (end - i) * ZG_PAGE_BYTES) == 0;
    }
    for (uint32_t i = 0; i < count; i++) set_retired(&zg_alias_area.aliases[pages[i]]);
    // It is unknown which pages are guarded, so their slots are never reused.
    if (!is_guarded) return zg_window_stop();
    zg_stats_add(zg_counter_guarded_later, count);
    if (!is_whole) zg_windows_take_lock();
    for (uint32_t i = 0; i < count; i++) zg_chunk_give_slot(&zg_alias_area.aliases[pages[i]]);
    zg_windows_drop_lock();
}

// Removes the pending pages of the window, in the order of their addresses. Returns their number. Under the lock.
static uint32_t take_pending(struct zg_window *window, uint32_t pages[ZG_CHUNK_PAGES_MOST]) {
    uint32_t count = 0;
    for (uint32_t word = 0; word < ZG_PAGE_WORDS; word++) {
        for (uint64_t bits = window->pending[word]; bits; bits &= bits - 1)
            pages[count++] = (uint32_t)window->first + 64 * word + (uint32_t)__builtin_ctzll(bits);
        window->pending[word] = 0;
    }
    window->pending_count = 0;
    zg_windows.pending.amount -= (uint64_t)count * zg_window_chunk(window)->slot_bytes;
    return count;
}

static void finish_pages(const uint32_t *pages, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) verify_fill(&zg_alias_area.aliases[pages[i]]);
    if (count) guard_pages(pages, count);
    zg_stats_add(zg_counter_retired_blocks, count);
    zg_stats_add(zg_counter_retired_bytes, count * ZG_PAGE_BYTES);
}

// Guards the pending pages of the window that has waited longest, if the pending pages of all windows exceed `most`
// bytes. False if they do not.
static ZG_NOINLINE bool finish_oldest(uint64_t most) {
    uint32_t pages[ZG_CHUNK_PAGES_MOST], count = 0;
    zg_windows_take_lock();
    bool is_over = zg_queue_is_over(&zg_windows.pending, most);
    if (is_over) {
        struct zg_window *window = zg_window_by_number(zg_queue_take(&zg_windows.pending, pending_links()));
        window->is_queued_pending = false;
        count = take_pending(window, pages);
    }
    zg_windows_drop_lock();
    finish_pages(pages, count);
    return is_over;
}

// Adds the page of a filled block to the pending pages. Guards pages if all other blocks of the window are freed, too,
// or if too many bytes are pending.
static ZG_NOINLINE void add_pending(struct zg_alias *alias) {
    uint32_t pages[ZG_CHUNK_PAGES_MOST], count = 0, number = alias->window;
    zg_windows_take_lock();
    struct zg_window *window = zg_window_by_number(number);
    uint64_t page = zg_alias_number(alias) - window->first;
    window->pending[page / 64] |= UINT64_C(1) << page % 64;
    window->pending_count++;
    zg_windows.pending.amount += alias->slot_bytes;
    if (window->pending_count == window->live && !zg_window_is_current(number)) {
        // The window stays in the queue without pending pages.
        count = take_pending(window, pages);
    } else if (!window->is_queued_pending) {
        window->is_queued_pending = true;
        zg_queue_add(&zg_windows.pending, pending_links(), number);
    }
    uint64_t waiting = zg_windows.pending.amount;
    bool is_over = waiting > zg_policy_pending_bytes_least();
    zg_windows_drop_lock();
    zg_stats_raise_peak(zg_counter_waiting_bytes_peak, waiting);
    finish_pages(pages, count);
    struct zg_isolation_conditions conditions = zg_conditions_now();
    if (is_over) finish_oldest(zg_policy_pending_bytes_most(&conditions));
}

void zg_window_flush(void) {
    while (finish_oldest(0)) {
    }
}

// --- single pages ---------------------------------------------------------------------------------------------------

// Processor time spent on guarding single pages, and its limit as of the last reading of the process's clock.
static uint64_t single_guards_ns, single_guards_ns_most = ZG_POLICY_SINGLE_GUARD_START_NS, refreshed_ticks;

// Returns true if there is time to guard a single page. Always true unless all blocks are isolated.
static bool may_guard_single_page(void) {
    if (zg_config.isolated_per_context != ZG_FENCE_ALL) return true;
    uint64_t spent = zg_load(&single_guards_ns);
    if (ZG_LIKELY(spent < zg_load(&single_guards_ns_most))) return true;
    static uint64_t looks; // concurrent increments may be lost
    uint64_t look = zg_load(&looks);
    zg_store(&looks, look + 1);
    if (look % ZG_POLICY_SINGLE_GUARD_LOOK_EVERY) return false;
    uint64_t ticks = zg_arch_ticks();
    if (zg_clock_ns(ticks - zg_load(&refreshed_ticks)) < ZG_POLICY_SINGLE_GUARD_REFRESH_NS) return false;
    zg_store(&refreshed_ticks, ticks);
    uint64_t most = zg_policy_single_guards_ns_most(zg_clock_process_ns());
    zg_store(&single_guards_ns_most, most);
    return spent < most;
}

// Guards the block's page. False if the kernel refuses.
static bool guard_single_page(struct zg_alias *alias) {
    uint64_t ticks = zg_arch_ticks();
    bool is_guarded = zg_os_guard((void *)zg_alias_page(alias), ZG_PAGE_BYTES) == 0;
    uint64_t ns = zg_clock_ns(zg_arch_ticks() - ticks);
    __atomic_fetch_add(&single_guards_ns, zg_policy_single_guard_ns(ns), __ATOMIC_RELAXED);
    return is_guarded;
}

bool zg_window_retire(struct zg_alias *alias, bool at_once) {
    uint64_t start = zg_alias_start(alias), bytes = zg_round_up(zg_alias_size(alias), 16);
    if (!at_once && !may_guard_single_page()) {
        uint32_t header = __atomic_load_n(&alias->block.header, __ATOMIC_RELAXED);
        if (zg_header_zombie(header)) zg_zombie_write((void *)start, bytes, zg_zombie_pattern_at(start, header));
        else zg_fill((void *)start, bytes, ZG_FILL_FREED);
        __atomic_store_n(&alias->block.header, zg_header_in_state(header, zg_state_quarantined), __ATOMIC_RELEASE);
        add_pending(alias);
        return false;
    }
    // Overwrite the object's header, so that the slot's next block does not look like the freed object.
    if (zg_header_zombie(__atomic_load_n(&alias->block.header, __ATOMIC_RELAXED)))
        zg_fill_small((void *)start, 16, ZG_FILL_WORD);
    bool is_guarded = guard_single_page(alias);
    if (!is_guarded) {
        // The page stays accessible, and its slot is never reused.
        zg_fill((void *)start, bytes, ZG_FILL_FREED);
        zg_window_stop();
    }
    set_retired(alias);
    zg_stats_add(zg_counter_retired_blocks, 1);
    zg_stats_add(zg_counter_retired_bytes, ZG_PAGE_BYTES);
    if (!is_guarded) return false;
    zg_windows_take_lock();
    zg_chunk_give_slot(alias);
    zg_windows_drop_lock();
    return true;
}
