// Takes slots of chunks and gives them back.
// Slow path; under the lock of windows.

#include "pages/chunk_slots.h"

#include "pages/chunk_class.h"
#include "pages/lifetimes.h"
#include "pages/window_space.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "settings/stats.h"

static bool is_reusable(const struct zg_chunk *chunk, uint32_t page) {
    return chunk->reusable[page / 64] >> page % 64 & 1;
}

bool zg_chunk_find_page(struct zg_chunk *chunk) {
    if (!chunk->current_window) return false;
    while (chunk->cursor < chunk->pages && !(chunk->free_slots[chunk->cursor] && is_reusable(chunk, chunk->cursor)))
        chunk->cursor++;
    return chunk->cursor < chunk->pages;
}

// Makes the page at the cursor accessible, and clears the record of the freed block there. If the kernel does not
// remove the guard, moves the cursor on and returns false.
static bool clear_page(struct zg_chunk *chunk) {
    struct zg_window *window = zg_window_by_number(chunk->current_window);
    struct zg_alias *alias = &zg_alias_area.aliases[window->first + chunk->cursor];
    if (ZG_LIKELY(zg_header_state(__atomic_load_n(&alias->block.header, __ATOMIC_RELAXED)) != zg_state_retired))
        return true;
    if (zg_os_unguard((void *)zg_alias_page(alias), ZG_PAGE_BYTES) != 0) {
        chunk->cursor++;
        return false;
    }
    __atomic_store_n(&alias->block.header, zg_block_header(zg_state_fresh, zg_family_malloc, 0), __ATOMIC_RELEASE);
    zg_stats_add(zg_counter_retired_blocks, (uint64_t)-1);
    zg_stats_add(zg_counter_retired_bytes, -ZG_PAGE_BYTES);
    zg_window_space_note_mapped(window, 1);
    return true;
}

// Puts the page at the cursor and some pages behind it into the page tables. Pages that have memory are mapped by one
// read: the kernel also maps pages around the faulting one, 64 KiB by default (fault_around_bytes of mm/memory.c). That
// takes 370 ns per page; MADV_POPULATE_WRITE takes 970. The page table entries are writable at once.
static void populate(struct zg_chunk *chunk) {
    if (chunk->cursor < chunk->populated) return;
    struct zg_window *window = zg_window_by_number(chunk->current_window);
    uint64_t page = window->first + chunk->cursor;
    if (chunk->cursor < chunk->touched) {
        (void)*(const volatile char *)zg_window_page_address(page);
        uint64_t end = zg_round_up(page + 1, ZG_POLICY_POPULATED_PAGES) - window->first;
        chunk->populated = (uint16_t)zg_min(end, chunk->touched);
        zg_window_space_note_mapped(window, chunk->populated - chunk->cursor);
        return;
    }
    uint32_t end = (uint32_t)zg_min(chunk->cursor + ZG_POLICY_POPULATED_PAGES, chunk->pages);
    // If the kernel refuses, the pages are mapped by page faults.
    zg_os_populate((void *)zg_window_page_address(page), (end - chunk->cursor) * ZG_PAGE_BYTES);
    zg_window_space_note_mapped(window, end - chunk->cursor);
    chunk->populated = chunk->touched = (uint16_t)end;
}

// Marks the first free slot of the page as used. Returns the slot's number in the page.
static uint32_t use_slot(struct zg_chunk *chunk, uint32_t page) {
    uint64_t *word = chunk->used[page];
    while (!~*word) word++;
    uint32_t bit = (uint32_t)__builtin_ctzll(~*word);
    *word |= UINT64_C(1) << bit;
    if (!--chunk->free_slots[page]) chunk->open_pages--;
    chunk->live++;
    chunk->is_empty = false;
    return (uint32_t)(word - chunk->used[page]) * 64 + bit;
}

struct zg_alias *zg_chunk_take_slot(struct zg_chunk *chunk) {
    if (!clear_page(chunk)) return NULL;
    populate(chunk);
    uint32_t page = chunk->cursor++, slot = use_slot(chunk, page);
    struct zg_window *window = zg_window_by_number(chunk->current_window);
    window->live++;
    struct zg_alias *alias = &zg_alias_area.aliases[window->first + page];
    alias->start = (uint16_t)(slot * chunk->slot_bytes);
    alias->slot_bytes = chunk->slot_bytes;
    alias->window = chunk->current_window;
    // Prefetch the next page, which is not in the TLB yet. The prefetch of an unmapped page has no effect.
    zg_arch_prefetch_for_write((void *)zg_window_page_address(window->first + chunk->cursor));
    return alias;
}

void zg_chunk_give_slot(struct zg_alias *alias) {
    uint32_t number = alias->window;
    struct zg_window *window = zg_window_by_number(number);
    struct zg_chunk *chunk = zg_window_chunk(window);
    uint32_t page = (uint32_t)(zg_alias_number(alias) - window->first), slot = alias->start / chunk->slot_bytes;
    if (!window->has_lifetimes) zg_lifetime_ended(__atomic_load_n(&alias->block.alloc_stack, __ATOMIC_RELAXED));
    chunk->used[page][slot / 64] &= ~(UINT64_C(1) << slot % 64);
    if (!chunk->free_slots[page]++) chunk->open_pages++;
    chunk->live--;
    zg_window_space_note_unmapped(window, 1);
    // From here on another thread may reuse the page.
    alias->window = 0;
    if (!--window->live && chunk->current_window != number) zg_window_space_close(number);
    zg_chunk_class_list(chunk);
}
