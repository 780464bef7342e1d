// Windows: chunks of packed slots, and the address space through which each block has a page of its own.

#define _GNU_SOURCE
#include "pages/window.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "blocks/fill.h"
#include "blocks/size_class.h"
#include "images/module.h"
#include "pages/fence.h"
#include "pages/lifetimes.h"
#include "pages/protect.h"
#include "platform/arch.h"
#include "platform/clock.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "pressure/pressure.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/stats.h"
#include "threads/single.h"
#include "zombies/zombie.h"

enum {
    CHUNK_PAGES_LEAST = 8,
    CHUNK_PAGES_MOST = 128,
    PAGE_SIZES = 5, // 8, 16, 32, 64, 128 pages
    CHUNKS = 1 << 16,
    WINDOWS = 1 << 20,
    SLOT_LEAST = 32,
    SLOTS_MOST = ZG_PAGE_BYTES / SLOT_LEAST,
    GAP_LEAST = 8,        // bytes behind a block that are filled and looked at
    POPULATED_AHEAD = 16, // pages: as many as the kernel maps at one fault
    OPENED_PER_SIZE = 8,  // windows until a stream's next chunk is larger
    CLOSED_LEAST = 32768, // pages of dead windows, whose records are kept: so many, or of this share of what is in use
    CLOSED_SHIFT = 3,
    CLASSES = ZG_CLASS_COUNT,
    STREAMS = 2 * CLASSES, // of a class: blocks that likely die soon, and those that likely last
    AGE = 16,              // windows of a stream from when one was passed until what is in use there has lasted
    FORKS_MOST = 4,        // of a process, and of those that it comes from
    STEP_BYTES = 64 << 10,
    CLOSED_NARROW = 4096, // pages of dead windows where memory is narrow: 128 KiB of records
    REENTERED_PART = 8,   // of a window's pages have to be free for another pass: a search pays from a dozen blocks on
    PAGE_PRICE = sizeof(struct zg_alias) + sizeof(uint64_t), // bytes of a page in a window
};
// What dying blocks may hold before they are guarded: this much, or this share of what is in use.
#define DYING_LEAST ((uint64_t)256 << 10)
enum { DYING_SHIFT = 3 };
// Chunks grow while they take less than this, or this share of what is in use; where windows are one way among others, than less.
#define BUSY_LEAST ((uint64_t)2 << 20)
#define BUSY_LEAST_OF_SOME ((uint64_t)256 << 10)
enum { BUSY_SHIFT = 1, BUSY_SHIFT_OF_SOME = 5 };
// Pages of windows that may be in the page tables there: so many bytes, or this share of what is in use.
#define MAPPED_LEAST ((uint64_t)512 << 10)
enum { MAPPED_SHIFT = 5 };
// Guarding each page by itself, when its block dies, may take this part of the processor's time, and this much first.
enum { ONE_BY_ONE_PART = 20, LOOK_EVERY = 64 };
#define ONE_BY_ONE_FIRST_NS UINT64_C(50000000)
#define ONE_MOST_NS UINT64_C(4000)
#define REFRESH_NS UINT64_C(2000000) // between two looks at the process's clock

// Physical pages of one stream: a size class, and blocks that are likely to last, or that are not. Invariants: 1. free[p] counts the
// clear bits of used[p] below `slots`. 2. `open` counts the pages with a free slot. 3. A page that the current window has passed (below
// `cursor`) is not handed out again by way of it.
struct chunk {
    uint64_t memory; // its first mapping, which no block is used by
    uint32_t next;   // of the stream's chunks that are worth a window: number, 0 ends it
    uint32_t window; // the one that goes on, 0: none
    uint32_t newest; // of its open windows, 0: none
    uint32_t live;   // blocks in use
    uint16_t pages, slots, slot_bytes;
    uint16_t cursor, populated; // pages of the window
    uint16_t touched;           // pages that have memory
    uint16_t open;
    uint8_t stream;
    bool is_listed, is_current, is_empty; // empty: its pages have gone back
    uint8_t free[CHUNK_PAGES_MOST];
    uint64_t used[CHUNK_PAGES_MOST][SLOTS_MOST / 64];
    uint64_t enterable[CHUNK_PAGES_MOST / 64]; // pages that the window's pass may hand out: a bit each
};

enum window_state { window_none, window_open, window_closed };
struct window {
    uint64_t first; // page of the area
    uint32_t chunk;
    uint32_t next; // open ones of the same chunk, newest first; closed ones, oldest first; those to be used again
    uint32_t next_dying;
    uint16_t pages, live;
    uint8_t state;
    bool is_judged;  // what was in use when others of its age were dead has been looked at
    bool is_queued;  // among those with dying blocks, oldest first
    bool is_in_line; // among those that were passed, oldest first, of which pages are mapped
    uint16_t mapped; // pages that are in the page tables, as far as is known
    uint32_t next_mapped;
    uint16_t dying_count; // blocks that are dead, and filled, but not guarded yet: a bit for each page
    uint64_t dying[CHUNK_PAGES_MOST / 64];
};

static struct zg_lock window_lock;
static struct chunk *chunks;
static struct window *windows;
static uint32_t chunk_count = 1, window_count = 1;
static uint64_t chunks_committed, windows_committed; // bytes
static uint64_t used_pages, closed_pages, memory_bytes, dying_bytes;
static uint32_t closed_oldest, closed_newest, dying_oldest, dying_newest, again[PAGE_SIZES];
static uint32_t mapped_oldest, mapped_newest;
static uint64_t mapped_pages;
static struct {
    uint32_t current, worthy; // chunk numbers
    uint32_t opened;          // windows since the last chunk was made
    uint16_t pages;           // of the last chunk
    uint16_t passed_count;
    uint32_t passed[AGE]; // windows by which no more blocks come: a ring
} streams[STREAMS];

// --- whether at all ----------------------------------------------------------------------------------------------------

static bool is_left;   // all pages of windows are private by now
static uint64_t owner; // the process that the windows are mapped in
static uint32_t state; // 0: not asked yet
enum { state_unknown, state_on, state_off };
static uint64_t libc_start, libc_bytes, loader_start, loader_bytes;
static struct { uint64_t start, bytes; } copying[2]; // functions of libc that make blocks for the program

// At the start: later another thread may have the loader's lock.
static void find_libc(void) {
    extern void *__tls_get_addr(void *); // the loader's
    const uint64_t functions[] = {(uint64_t)strdup, (uint64_t)strndup};
    struct zg_module module;
    if (zg_module_find_unwind((uint64_t)gnu_get_libc_version, &module)) {
        libc_start = module.start;
        libc_bytes = module.end - module.start;
    }
    if (zg_module_find_unwind((uint64_t)__tls_get_addr, &module)) {
        loader_start = module.start;
        loader_bytes = module.end - module.start;
    }
    enum { FUNCTION_BYTES = 96 };
    for (uint32_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        copying[i].start = functions[i];
        copying[i].bytes = FUNCTION_BYTES;
    }
}

// Guards for shared memory, and a window onto it.
static bool can_guard(void) {
    char *common = zg_os_map_common(ZG_PAGE_BYTES), *again_there = NULL;
    if (!common) return false;
    again_there = zg_os_map_again(common, ZG_PAGE_BYTES);
    bool done =
        again_there && zg_os_populate(again_there, ZG_PAGE_BYTES) == 0 && zg_os_guard(again_there, ZG_PAGE_BYTES) == 0;
    if (again_there) zg_os_release(again_there, ZG_PAGE_BYTES);
    zg_os_release(common, ZG_PAGE_BYTES);
    return done;
}

void zg_window_reserve(void) {
    if (zg_config.fence_windows == zg_fence_windows_off || !zg_config.fence_per_context) return;
    if (zg_config.on_finding == zg_on_finding_continue) return; // contents are needed later
    // A window is mapped memory, dead or not, and counts.
    if (zg_os_address_space() != RLIM_INFINITY) return;
    find_libc();
    for (uint64_t pages = UINT64_C(1) << 24; pages >= 1 << 16 && !zg_alias_init(pages, POPULATED_AHEAD * ZG_PAGE_BYTES);
         pages /= 4) {
    }
}

static bool start(void) {
    if (!zg_alias_area.pages || zg_protection_now() != zg_protection_guards || !can_guard()) return false;
    chunks = zg_os_reserve(zg_round_up(CHUNKS * sizeof *chunks, ZG_PAGE_BYTES));
    windows = zg_os_reserve(zg_round_up(WINDOWS * sizeof *windows, ZG_PAGE_BYTES));
    if (!chunks || !windows) return false;
    zg_store(&owner, (uint64_t)zg_os_pid());
    return libc_bytes != 0;
}

static bool is_on(void) {
    uint32_t known = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (ZG_LIKELY(known != state_unknown)) return known == state_on;
    zg_lock_take(&window_lock);
    if (state == state_unknown) __atomic_store_n(&state, start() ? state_on : state_off, __ATOMIC_RELEASE);
    zg_lock_drop(&window_lock);
    return state == state_on;
}

// Only some blocks lie in windows, and the memory and the page tables of these are a price that others do not have.
static bool is_of_some(void) {
    return zg_config.fence_per_context != ZG_FENCE_ALL && zg_config.fence_windows == zg_fence_windows_auto;
}

void zg_window_stop(void) { __atomic_store_n(&state, state_off, __ATOMIC_RELEASE); }
bool zg_window_may_be(void) { return zg_alias_area.pages && __atomic_load_n(&state, __ATOMIC_RELAXED) != state_off; }
bool zg_window_is_forced(void) { return zg_config.fence_windows == zg_fence_windows_all; }

bool zg_window_is_for(uint64_t caller) {
    if (!is_on() || zg_protection_is_stopped()) return false;
    if (ZG_LIKELY(caller - libc_start >= libc_bytes)) return caller - loader_start >= loader_bytes;
    for (uint32_t i = 0; i < sizeof copying / sizeof *copying; i++)
        if (caller - copying[i].start < copying[i].bytes) return true;
    return false;
}

// --- address space -----------------------------------------------------------------------------------------------------

static uint64_t address_of(uint64_t page) { return zg_alias_area.base + page * ZG_PAGE_BYTES; }
static uint32_t size_number(uint32_t pages) { return (uint32_t)__builtin_ctz(pages / CHUNK_PAGES_LEAST); }

// Makes a table readable up to entry `count`.
static bool commit(void *table, uint64_t entry_bytes, uint64_t count, uint64_t *committed) {
    uint64_t wanted = zg_round_up(count * entry_bytes, STEP_BYTES);
    if (wanted <= *committed) return true;
    if (zg_os_commit((char *)table + *committed, wanted - *committed) != 0) return false;
    *committed = wanted;
    return true;
}

// So many pages of dead windows may keep their records.
static uint64_t closed_most(void) {
    if (zg_fence_is_narrow()) return CLOSED_NARROW;
    uint64_t live = zg_stats_get(zg_counter_live_bytes) >> CLOSED_SHIFT;
    return zg_min(zg_config.retired_bytes / ZG_PAGE_BYTES, zg_max(CLOSED_LEAST, live / sizeof(struct zg_alias)));
}

// Its address space serves the next window of this size. Under the lock.
static void put_again(uint32_t number) {
    uint32_t *list = &again[size_number(windows[number].pages)];
    windows[number].next = *list;
    *list = number;
}

// The oldest dead windows are forgotten, and serve again. Under the lock.
static void reuse_oldest(void) {
    while (closed_oldest && closed_pages > closed_most()) {
        uint32_t number = closed_oldest;
        struct window *window = &windows[number];
        closed_oldest = window->next;
        if (!closed_oldest) closed_newest = 0;
        closed_pages -= window->pages;
        uint32_t forgotten = 0;
        for (uint64_t page = window->first; page < window->first + window->pages; page++) {
            struct zg_alias *alias = &zg_alias_area.aliases[page];
            forgotten += alias->slot_bytes != 0;
            alias->slot_bytes = 0;
            alias->window = 0;
            __atomic_store_n(&alias->block.header, zg_block_header(zg_state_fresh, zg_family_malloc, 0),
                             __ATOMIC_RELEASE);
        }
        zg_stats_add(zg_counter_retired_blocks, -(uint64_t)forgotten);
        zg_stats_add(zg_counter_retired_bytes, -(uint64_t)forgotten * ZG_PAGE_BYTES);
        window->state = window_none;
        put_again(number);
    }
}

// A window for the chunk, its number; 0 where there is none. Under the lock.
static uint32_t open_window(struct chunk *chunk) {
    uint32_t *list = &again[size_number(chunk->pages)], number = *list;
    uint64_t fresh = zg_round_up(used_pages, zg_min(chunk->pages, POPULATED_AHEAD));
    if (number) {
        *list = windows[number].next;
    } else {
        if (window_count == WINDOWS || fresh + chunk->pages > zg_alias_area.pages) return 0;
        if (!commit(windows, sizeof *windows, window_count + UINT64_C(1), &windows_committed)) return 0;
        if (!zg_alias_cover(fresh + chunk->pages)) return 0;
    }
    if (!zg_mappings_take(1)) {
        if (number) put_again(number);
        return 0;
    }
    uint64_t first = number ? windows[number].first : fresh;
    if (zg_os_map_window((void *)chunk->memory, chunk->pages * ZG_PAGE_BYTES, (void *)address_of(first)) != 0) {
        // The kernel may have unmapped what was there.
        zg_mappings_give(1);
        zg_os_blank((void *)address_of(first), chunk->pages * ZG_PAGE_BYTES);
        if (number) put_again(number);
        return 0;
    }
    if (!number) {
        number = window_count++;
        used_pages = fresh + chunk->pages;
        zg_pressure_note_taken(chunk->pages * PAGE_PRICE);
    }
    struct window *window = &windows[number];
    window->first = first;
    window->chunk = (uint32_t)(chunk - chunks);
    window->pages = chunk->pages;
    window->state = window_open;
    window->is_judged = false;
    window->mapped = 0;
    window->next = chunk->newest;
    chunk->newest = chunk->window = number;
    chunk->cursor = chunk->populated = 0;
    chunk->enterable[0] = chunk->enterable[1] = UINT64_MAX;
    streams[chunk->stream].opened++;
    return number;
}

static void note_mapped(struct window *window, uint32_t pages) {
    window->mapped += pages;
    mapped_pages += pages;
}
static void note_unmapped(struct window *window, uint32_t pages) {
    pages = (uint32_t)zg_min(pages, window->mapped);
    window->mapped -= pages;
    mapped_pages -= pages;
}

// Pages of the windows that were passed first go out of the page tables, once there are too many: each counts as resident memory.
// Their contents are in the chunk's memory, and a block that is used there again costs a fault. Guards stay. Under the lock.
static void unmap_oldest(void) {
    uint64_t most = zg_max(MAPPED_LEAST, zg_stats_get(zg_counter_live_bytes) >> MAPPED_SHIFT) / ZG_PAGE_BYTES;
    while (mapped_oldest && mapped_pages > most) {
        struct window *window = &windows[mapped_oldest];
        uint32_t number = mapped_oldest;
        mapped_oldest = window->next_mapped;
        if (!mapped_oldest) mapped_newest = 0;
        window->is_in_line = false;
        // Its number may be another window's by now, which has not been passed.
        if (window->state != window_open || chunks[window->chunk].window == number) continue;
        if (window->mapped) zg_os_discard((void *)address_of(window->first), window->pages * ZG_PAGE_BYTES);
        note_unmapped(window, window->mapped);
    }
}

// Under the lock.
static void stand_in_line(uint32_t number) {
    struct window *window = &windows[number];
    if (!is_of_some()) return;
    if (!window->is_in_line) {
        window->is_in_line = true;
        window->next_mapped = 0;
        if (mapped_newest) windows[mapped_newest].next_mapped = number;
        else mapped_oldest = number;
        mapped_newest = number;
    }
    unmap_oldest();
}

// It is none of its chunk's open windows any more. Under the lock.
static void unlink_window(uint32_t number) {
    uint32_t *link = &chunks[windows[number].chunk].newest;
    while (*link != number) link = &windows[*link].next;
    *link = windows[number].next;
}

// All its blocks are dead: its guards become one inaccessible mapping. Under the lock.
static void close_window(uint32_t number) {
    struct window *window = &windows[number];
    uint64_t bytes = window->pages * ZG_PAGE_BYTES;
    if (zg_os_blank((void *)address_of(window->first), bytes) != 0) {
        // Some of its pages may not be guarded yet.
        if (zg_os_guard((void *)address_of(window->first), bytes) != 0) zg_window_stop();
        return;
    }
    zg_mappings_give(1);
    note_unmapped(window, window->mapped);
    window->state = window_closed;
    unlink_window(number);
    window->next = 0;
    if (closed_newest) windows[closed_newest].next = number;
    else closed_oldest = number;
    closed_newest = number;
    closed_pages += window->pages;
    reuse_oldest();
}

// --- memory ------------------------------------------------------------------------------------------------------------

static bool is_worth_a_window(const struct chunk *chunk) { return chunk->open >= chunk->pages / 2; }
// Where memory is narrow it need not have another window: one that it has is used again.
static bool is_worth_entering(const struct chunk *chunk) {
    return is_worth_a_window(chunk) || (zg_fence_is_narrow() && chunk->open >= chunk->pages / REENTERED_PART);
}

static void list(struct chunk *chunk) {
    if (chunk->is_listed || chunk->is_current || !is_worth_entering(chunk)) return;
    chunk->is_listed = true;
    chunk->next = streams[chunk->stream].worthy;
    streams[chunk->stream].worthy = (uint32_t)(chunk - chunks);
}

static struct chunk *unlist(uint32_t stream) {
    while (streams[stream].worthy) {
        struct chunk *chunk = &chunks[streams[stream].worthy];
        streams[stream].worthy = chunk->next;
        chunk->is_listed = false;
        if (is_worth_entering(chunk)) return chunk;
    }
    return NULL;
}

// Why there was no memory or window for a block when that was last so. Under the lock.
static enum zg_coverage_reason lacking = zg_coverage_reason_address_space;

// Under the lock.
static struct chunk *make_chunk(uint32_t stream) {
    uint32_t pages = streams[stream].pages;
    pages = pages ? zg_min(2 * pages, CHUNK_PAGES_MOST) : CHUNK_PAGES_LEAST;
    uint64_t bytes = pages * ZG_PAGE_BYTES;
    lacking = zg_coverage_reason_address_space;
    if (chunk_count == CHUNKS) return NULL;
    if (memory_bytes + bytes > zg_fence_memory_most(false, &lacking)) return NULL;
    lacking = zg_coverage_reason_refused;
    if (!commit(chunks, sizeof *chunks, chunk_count + UINT64_C(1), &chunks_committed)) return NULL;
    void *memory = zg_os_map_common(bytes);
    if (!memory) return NULL;
    uint32_t slot_bytes = zg_class_bytes(stream / 2), slots = ZG_PAGE_BYTES / slot_bytes;
    struct chunk *chunk = &chunks[chunk_count++];
    *chunk = (struct chunk){.memory = (uint64_t)memory,
                            .pages = (uint16_t)pages,
                            .slots = (uint16_t)slots,
                            .slot_bytes = (uint16_t)slot_bytes,
                            .open = (uint16_t)pages,
                            .stream = (uint8_t)stream};
    for (uint32_t page = 0; page < pages; page++) chunk->free[page] = (uint8_t)slots;
    streams[stream].pages = (uint16_t)pages;
    streams[stream].opened = 0;
    zg_store(&memory_bytes, memory_bytes + bytes);
    zg_pressure_note_taken(bytes);
    return chunk;
}

// What is in use by way of the window has outlived the others of its age. Under the lock.
static void judge(uint32_t number) {
    struct window *window = &windows[number];
    // Its number may be another window's by now.
    if (window->state != window_open || window->is_judged || chunks[window->chunk].window == number) return;
    window->is_judged = true;
    for (uint64_t page = window->first; page < window->first + window->pages; page++) {
        const struct zg_block *block = &zg_alias_area.aliases[page].block;
        if (zg_header_state(__atomic_load_n(&block->header, __ATOMIC_RELAXED)) == zg_state_live)
            zg_lifetime_lasted(__atomic_load_n(&block->alloc_stack, __ATOMIC_RELAXED));
    }
}

// No more blocks come by way of the window. Under the lock.
static void pass(uint32_t stream, uint32_t number) {
    uint32_t *place = &streams[stream].passed[streams[stream].passed_count++ % AGE];
    if (*place) judge(*place);
    *place = number;
    if (windows[number].state == window_open && !windows[number].live) close_window(number);
    else stand_in_line(number);
}

// Pages of the window by which no block is in use, of those with a free slot: a bit each. Returns how many. Under the lock.
static uint32_t find_enterable(const struct chunk *chunk, uint32_t number, uint64_t bits[CHUNK_PAGES_MOST / 64]) {
    uint32_t count = 0;
    bits[0] = bits[1] = 0;
    for (uint32_t page = 0; page < chunk->pages; page++) {
        if (!chunk->free[page] || zg_alias_area.aliases[windows[number].first + page].window) continue;
        bits[page / 64] |= UINT64_C(1) << page % 64;
        count++;
    }
    return count;
}

// A window that was passed is passed once more, and pages whose blocks died before serve again: no record, no page table and no mapping
// more. What dies from now on stays dead until another pass. Under the lock.
static bool reenter_window(struct chunk *chunk) {
    for (uint32_t number = chunk->newest; number; number = windows[number].next) {
        if (number == chunk->window) continue; // its pass has just ended
        if (find_enterable(chunk, number, chunk->enterable) < chunk->pages / REENTERED_PART) continue;
        chunk->window = number;
        chunk->cursor = 0;
        chunk->populated = chunk->pages; // page by page
        return true;
    }
    return false;
}

// Under the lock.
static bool enter_window(struct chunk *chunk) {
    if (zg_fence_is_narrow() && reenter_window(chunk)) return true;
    return is_worth_a_window(chunk) && open_window(chunk);
}

// The stream's next chunk, with a window onto it. NULL where there is none. Under the lock.
static struct chunk *next_chunk(uint32_t stream) {
    struct chunk *last = streams[stream].current ? &chunks[streams[stream].current] : NULL;
    // Larger windows cost less for each block, and more memory than the blocks need.
    uint64_t live = zg_stats_get(zg_counter_live_bytes);
    uint64_t most =
        is_of_some() ? zg_max(BUSY_LEAST_OF_SOME, live >> BUSY_SHIFT_OF_SOME) : zg_max(BUSY_LEAST, live >> BUSY_SHIFT);
    bool is_busy =
        streams[stream].opened >= OPENED_PER_SIZE && streams[stream].pages < CHUNK_PAGES_MOST && memory_bytes < most;
    uint32_t passed = last ? last->window : 0;
    struct chunk *chunk = is_busy ? make_chunk(stream) : NULL;
    if (!chunk && last && is_worth_entering(last)) chunk = last;
    if (!chunk) chunk = unlist(stream);
    if (!chunk) chunk = make_chunk(stream);
    // Where there is no memory for another chunk lifetimes mix: else what frees in the class's other stream would lie idle.
    if (!chunk) chunk = unlist(stream ^ 1);
    if (chunk) lacking = zg_coverage_reason_refused;
    if (!chunk || !enter_window(chunk)) {
        // Where memory is narrow others come first, until more of its blocks die.
        if (chunk && !zg_fence_is_narrow()) list(chunk);
        if (chunk != last) return NULL;
        chunk = NULL;
    }
    if (passed && chunk != last) last->window = 0;
    if (last && chunk != last) {
        last->is_current = false;
        list(last);
    }
    streams[stream].current = chunk ? (uint32_t)(chunk - chunks) : 0;
    if (chunk) chunk->is_current = true;
    if (passed) pass(stream, passed);
    return chunk;
}

// --- blocks ------------------------------------------------------------------------------------------------------------

static bool is_enterable(const struct chunk *chunk, uint32_t page) {
    return chunk->enterable[page / 64] >> page % 64 & 1;
}

// The page at the cursor is there, and nothing is known of a block that died in it. False where its guard stays. Under the lock.
static bool clear_page(struct chunk *chunk) {
    struct window *window = &windows[chunk->window];
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
    note_mapped(window, 1);
    return true;
}

// The chunk's next page with a free slot, of which none was handed out by way of its window. Under the lock.
static bool find_page(struct chunk *chunk) {
    if (!chunk->window) return false;
    while (chunk->cursor < chunk->pages && !(chunk->free[chunk->cursor] && is_enterable(chunk, chunk->cursor)))
        chunk->cursor++;
    return chunk->cursor < chunk->pages;
}

// Pages that have memory come by one read: the kernel maps what is around the one that faults, 64 KiB by its default (fault_around_bytes of
// mm/memory.c), for less than half of what MADV_POPULATE_READ takes. Entries are writable at once.
static void populate(struct chunk *chunk) {
    if (chunk->cursor < chunk->populated) return;
    uint64_t page = windows[chunk->window].first + chunk->cursor;
    if (chunk->cursor < chunk->touched) {
        (void)*(const volatile char *)address_of(page);
        chunk->populated =
            (uint16_t)zg_min(zg_round_up(page + 1, POPULATED_AHEAD) - windows[chunk->window].first, chunk->touched);
        note_mapped(&windows[chunk->window], chunk->populated - chunk->cursor);
        return;
    }
    uint32_t to = zg_min(chunk->cursor + POPULATED_AHEAD, chunk->pages);
    // Where that is refused they come by faults.
    zg_os_populate((void *)address_of(page), (to - chunk->cursor) * ZG_PAGE_BYTES);
    note_mapped(&windows[chunk->window], to - chunk->cursor);
    chunk->populated = chunk->touched = (uint16_t)to;
}

static struct zg_alias *take_slot(struct chunk *chunk) {
    uint32_t page = chunk->cursor++, slot = 0;
    for (uint64_t *word = chunk->used[page];; word++, slot += 64)
        if (~*word) {
            uint32_t bit = (uint32_t)__builtin_ctzll(~*word);
            *word |= UINT64_C(1) << bit;
            slot += bit;
            break;
        }
    if (!--chunk->free[page]) chunk->open--;
    chunk->live++;
    chunk->is_empty = false;
    struct window *window = &windows[chunk->window];
    window->live++;
    struct zg_alias *alias = &zg_alias_area.aliases[window->first + page];
    alias->start = (uint16_t)(slot * chunk->slot_bytes);
    alias->slot_bytes = chunk->slot_bytes;
    alias->window = chunk->window;
    // The next page is in no cache of translations yet. One that is not there is not fetched.
    __builtin_prefetch((void *)address_of(window->first + chunk->cursor), 1);
    return alias;
}

static void give_slot(struct zg_alias *alias) {
    struct window *window = &windows[alias->window];
    struct chunk *chunk = &chunks[window->chunk];
    uint32_t page = (uint32_t)(zg_alias_number(alias) - window->first), slot = alias->start / chunk->slot_bytes;
    if (!window->is_judged) zg_lifetime_ended(__atomic_load_n(&alias->block.alloc_stack, __ATOMIC_RELAXED));
    chunk->used[page][slot / 64] &= ~(UINT64_C(1) << slot % 64);
    if (!chunk->free[page]++) chunk->open++;
    chunk->live--;
    note_unmapped(window, 1);
    uint32_t number = alias->window;
    alias->window = 0; // no other thread hands the page out before
    if (!--window->live && chunk->window != number) close_window(number);
    list(chunk);
}

// Where only some blocks lie in windows their slots have few sizes: chunks of one for each class would be nearly empty.
static bool is_slot_size(uint32_t bytes, uint64_t alignment) {
    return !(bytes & (alignment - 1)) && (!is_of_some() || !(bytes & (bytes - 1)));
}

// The class of slots that hold so much at this alignment, ZG_CLASS_COUNT where there is none.
static uint32_t class_for(uint64_t size, uint64_t alignment) {
    if (!size || size > ZG_WINDOW_MOST || alignment > ZG_WINDOW_MOST) return CLASSES;
    uint32_t class = zg_size_class(zg_max(size + GAP_LEAST, SLOT_LEAST));
    while (class < CLASSES && !is_slot_size(zg_class_bytes(class), zg_max(alignment, 16))) class++;
    return class < CLASSES && zg_class_bytes(class) <= ZG_PAGE_BYTES / 2 ? class : CLASSES;
}

struct zg_alias *zg_window_allocate(uint64_t size, uint64_t alignment, bool zero, uint32_t context) {
    uint32_t class = class_for(size, alignment);
    if (class == CLASSES) return NULL;
    uint32_t stream = 2 * class + zg_lifetime_is_long(context);
    struct zg_alias *alias = NULL;
    zg_lock_take(&window_lock);
    struct chunk *chunk = streams[stream].current ? &chunks[streams[stream].current] : NULL;
    for (int tries = 0; (!chunk || !find_page(chunk)) && tries < 2; tries++)
        if (!(chunk = next_chunk(stream))) break;
    if (chunk && find_page(chunk) && clear_page(chunk)) {
        populate(chunk);
        alias = take_slot(chunk);
        // Before another thread's fork can copy the page: its child looks at the fill of what was live by then.
        __builtin_memset((char *)zg_alias_start(alias) + size, ZG_FILL_GAP, alias->slot_bytes - size);
    }
    enum zg_coverage_reason why = lacking;
    zg_lock_drop(&window_lock);
    if (!alias) {
        zg_coverage_declined(why);
        return NULL;
    }
    if (zero) __builtin_memset((void *)zg_alias_start(alias), 0, size);
    return alias;
}

// Notes what of the fill behind a block is another; `offset` is that of `fill` in the block.
static void look_at_gap(const uint8_t *fill, uint64_t bytes, uint64_t offset, struct zg_change *change) {
    for (uint64_t i = 0; i < bytes; i++) {
        if (fill[i] == ZG_FILL_GAP) continue;
        if (!change->length) *change = (struct zg_change){.offset = offset + i, .old = ZG_FILL_GAP, .now = fill[i]};
        change->length = offset + i - change->offset + 1;
    }
}

bool zg_window_is_overrun(const struct zg_alias *alias, struct zg_change *change) {
    uint64_t size = zg_alias_size(alias);
    *change = (struct zg_change){.length = 0};
    look_at_gap((const uint8_t *)zg_alias_start(alias) + size, alias->slot_bytes - size, size, change);
    return change->length != 0;
}

// Its page is guarded: its slot serves again.
static void note_retired(struct zg_alias *alias) {
    uint32_t header = __atomic_load_n(&alias->block.header, __ATOMIC_RELAXED);
    __atomic_store_n(&alias->block.header, zg_header_in_state(header, zg_state_retired), __ATOMIC_RELEASE);
}

static void verify(struct zg_alias *alias) {
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

// Pages of one window. Where these are the last blocks of a window that is done with, it is closed as a whole, instead of guarding each.
static void guard(const uint32_t *numbers, uint32_t count) {
    uint32_t number = zg_alias_area.aliases[numbers[0]].window;
    zg_lock_take(&window_lock);
    bool is_whole = windows[number].live == count && chunks[windows[number].chunk].window != number;
    if (!is_whole) zg_lock_drop(&window_lock);
    bool is_guarded = true;
    for (uint32_t i = 0, end; i < count && !is_whole; i = end) {
        for (end = i + 1; end < count && numbers[end] == numbers[end - 1] + 1;) end++;
        is_guarded &= zg_os_guard((void *)address_of(numbers[i]), (end - i) * ZG_PAGE_BYTES) == 0;
    }
    for (uint32_t i = 0; i < count; i++) note_retired(&zg_alias_area.aliases[numbers[i]]);
    // Which of them are is not known: their slots are never used again.
    if (!is_guarded) return zg_window_stop();
    if (!is_whole) zg_lock_take(&window_lock);
    for (uint32_t i = 0; i < count; i++) give_slot(&zg_alias_area.aliases[numbers[i]]);
    zg_lock_drop(&window_lock);
}

// Takes a window out of the queue; the numbers of its dying pages, upwards. Under the lock.
static uint32_t take_dying(struct window *window, uint32_t numbers[CHUNK_PAGES_MOST]) {
    uint32_t count = 0;
    for (uint32_t word = 0; word < CHUNK_PAGES_MOST / 64; word++)
        for (uint64_t bits = window->dying[word]; bits; bits &= bits - 1)
            numbers[count++] = (uint32_t)window->first + 64 * word + (uint32_t)__builtin_ctzll(bits);
    window->dying[0] = window->dying[1] = 0;
    window->dying_count = 0;
    dying_bytes -= (uint64_t)count * chunks[window->chunk].slot_bytes;
    return count;
}

static void finish(const uint32_t *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) verify(&zg_alias_area.aliases[numbers[i]]);
    if (count) guard(numbers, count);
    zg_stats_add(zg_counter_retired_blocks, count);
    zg_stats_add(zg_counter_retired_bytes, count * ZG_PAGE_BYTES);
}

// Those of the window that has waited longest, once there are more than `most` bytes. False: there are no more.
static ZG_NOINLINE bool finish_oldest(uint64_t most) {
    uint32_t numbers[CHUNK_PAGES_MOST], count = 0;
    zg_lock_take(&window_lock);
    bool is_over = dying_bytes > most && dying_oldest;
    if (is_over) {
        struct window *window = &windows[dying_oldest];
        dying_oldest = window->next_dying;
        if (!dying_oldest) dying_newest = 0;
        window->is_queued = false;
        count = take_dying(window, numbers);
    }
    zg_lock_drop(&window_lock);
    finish(numbers, count);
    return is_over;
}

// A block that is filled. Once all that is left in its window is dying, or too much is, pages are guarded.
static ZG_NOINLINE void put_dying(struct zg_alias *alias) {
    uint32_t numbers[CHUNK_PAGES_MOST], count = 0, number = alias->window;
    zg_lock_take(&window_lock);
    struct window *window = &windows[number];
    uint64_t page = zg_alias_number(alias) - window->first;
    window->dying[page / 64] |= UINT64_C(1) << page % 64;
    window->dying_count++;
    dying_bytes += alias->slot_bytes;
    if (window->dying_count == window->live && chunks[window->chunk].window != number) {
        count = take_dying(window, numbers); // it stays in the queue, without any
    } else if (!window->is_queued) {
        window->is_queued = true;
        window->next_dying = 0;
        if (dying_newest) windows[dying_newest].next_dying = number;
        else dying_oldest = number;
        dying_newest = number;
    }
    bool is_over = dying_bytes > DYING_LEAST;
    zg_lock_drop(&window_lock);
    finish(numbers, count);
    uint64_t share = zg_fence_is_narrow() ? 0 : zg_stats_get(zg_counter_live_bytes) >> DYING_SHIFT;
    if (is_over) finish_oldest(zg_max(DYING_LEAST, share));
}

static uint64_t one_by_one_ns, one_by_one_most_ns = ONE_BY_ONE_FIRST_NS, refreshed_ticks;

static bool may_guard_one(void) {
    if (zg_config.fence_per_context != ZG_FENCE_ALL) return true; // there are only so many
    uint64_t spent = zg_load(&one_by_one_ns);
    if (ZG_LIKELY(spent < zg_load(&one_by_one_most_ns))) return true;
    static uint64_t looks; // approximate where threads meet
    uint64_t look = zg_load(&looks);
    zg_store(&looks, look + 1);
    if (look % LOOK_EVERY) return false;
    uint64_t ticks = zg_arch_ticks();
    if (zg_clock_ns(ticks - zg_load(&refreshed_ticks)) < REFRESH_NS) return false;
    zg_store(&refreshed_ticks, ticks);
    uint64_t most = ONE_BY_ONE_FIRST_NS + zg_clock_process_ns() / ONE_BY_ONE_PART;
    zg_store(&one_by_one_most_ns, most);
    return spent < most;
}

void zg_window_retire(struct zg_alias *alias) {
    uint64_t start = zg_alias_start(alias), bytes = zg_round_up(zg_alias_size(alias), 16);
    if (!may_guard_one()) {
        uint32_t header = __atomic_load_n(&alias->block.header, __ATOMIC_RELAXED);
        if (zg_header_zombie(header)) zg_zombie_write((void *)start, bytes, zg_zombie_pattern_at(start, header));
        else zg_fill((void *)start, bytes, ZG_FILL_FREED);
        __atomic_store_n(&alias->block.header, zg_header_in_state(header, zg_state_quarantined), __ATOMIC_RELEASE);
        return put_dying(alias);
    }
    // The slot's next block is no object before it has been made one.
    if (zg_header_zombie(__atomic_load_n(&alias->block.header, __ATOMIC_RELAXED)))
        zg_fill_small((void *)start, 16, ZG_FILL_WORD);
    uint64_t ticks = zg_arch_ticks();
    bool is_guarded = zg_os_guard((void *)zg_alias_page(alias), ZG_PAGE_BYTES) == 0;
    uint64_t ns = zg_clock_ns(zg_arch_ticks() - ticks);
    __atomic_fetch_add(&one_by_one_ns, zg_min(ns, ONE_MOST_NS), __ATOMIC_RELAXED);
    if (!is_guarded) {
        // Neither guarded nor ever used again.
        zg_fill((void *)start, bytes, ZG_FILL_FREED);
        zg_window_stop();
    }
    note_retired(alias);
    zg_stats_add(zg_counter_retired_blocks, 1);
    zg_stats_add(zg_counter_retired_bytes, ZG_PAGE_BYTES);
    if (!is_guarded) return;
    zg_lock_take(&window_lock);
    give_slot(alias);
    zg_lock_drop(&window_lock);
}

void zg_window_flush(void) {
    while (finish_oldest(0)) {
    }
}

// The fill behind a block in use, by way of the chunk's own mapping: another thread may free the block, and guard its page,
// meanwhile, or the program may have protected it. Without windows any more the kernel copies it. False: it is as it was.
static bool find_change(const struct zg_alias *alias, struct zg_change *change) {
    uint64_t size = zg_alias_size(alias), end = alias->slot_bytes;
    *change = (struct zg_change){.length = 0};
    // The block may be freed meanwhile, and its slot given back.
    uint32_t number = __atomic_load_n(&alias->window, __ATOMIC_RELAXED);
    if (!number || number == UINT32_MAX) return false;
    const struct window *window = &windows[number];
    uint64_t slot =
        chunks[window->chunk].memory + (zg_alias_number(alias) - window->first) * ZG_PAGE_BYTES + alias->start;
    uint8_t copy[64];
    if (size >= end) return false;
    if (!is_left) look_at_gap((const uint8_t *)slot + size, end - size, size, change);
    for (uint64_t at = size, bytes; is_left && at < end; at += bytes) {
        bytes = zg_min(end - at, sizeof copy);
        if (zg_os_read_memory(copy, zg_alias_start(alias) + at, bytes) != bytes) return false;
        look_at_gap(copy, bytes, at, change);
    }
    return change->length != 0;
}

static bool look_at_live(struct zg_alias *alias, const char *found_by) {
    uint32_t header = __atomic_load_n(&alias->block.header, __ATOMIC_ACQUIRE);
    struct zg_change change;
    if (zg_header_state(header) != zg_state_live || header & ZG_HEADER_CHANGED || !find_change(alias, &change))
        return false;
    // Once more where no page can be given to another block meanwhile. Who marks it reports it; whoever frees it has changed its state.
    zg_lock_take(&window_lock);
    header = __atomic_load_n(&alias->block.header, __ATOMIC_ACQUIRE);
    bool is_changed =
        zg_header_state(header) == zg_state_live && !(header & ZG_HEADER_CHANGED) && find_change(alias, &change);
    is_changed = is_changed && __atomic_compare_exchange_n(&alias->block.header, &header, header | ZG_HEADER_CHANGED,
                                                           false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    zg_lock_drop(&window_lock);
    struct zg_block_view view;
    if (is_changed && zg_lookup_block(zg_alias_start(alias), &view)) zg_found_overrun(&view, &change, found_by);
    return is_changed;
}

uint64_t zg_window_verify_live(const char *found_by) {
    uint64_t found = 0, end = __atomic_load_n(&zg_alias_area.covered, __ATOMIC_ACQUIRE);
    // A child that has not what its parent had (zg_window_fault) looks at nothing.
    if (!is_left && zg_load(&owner) != (uint64_t)zg_os_pid()) return 0;
    end = zg_min(end, zg_load(&used_pages));
    for (uint64_t page = 0; page < end; page++) found += look_at_live(&zg_alias_area.aliases[page], found_by);
    return found;
}

uint64_t zg_window_bytes(void) { return zg_load(&memory_bytes); }

uint64_t zg_window_trim(void) {
    uint64_t given = 0;
    if (chunk_count == 1 || __atomic_load_n(&state, __ATOMIC_RELAXED) != state_on) return 0;
    zg_lock_take(&window_lock);
    for (uint32_t number = 1; number < chunk_count; number++) {
        struct chunk *chunk = &chunks[number];
        if (chunk->live || chunk->is_empty) continue;
        if (zg_os_remove((void *)chunk->memory, chunk->pages * ZG_PAGE_BYTES) != 0) continue;
        chunk->is_empty = true;
        chunk->touched = 0;
        given += chunk->pages * ZG_PAGE_BYTES;
    }
    zg_lock_drop(&window_lock);
    return given;
}

// --- fork --------------------------------------------------------------------------------------------------------------

static __thread struct {
    char *start;
    uint64_t bytes;
} copied __attribute__((tls_model("initial-exec")));

void zg_window_lock(void) { zg_lock_take(&window_lock); }
void zg_window_unlock(bool reset) {
    if (reset) zg_lock_reset(&window_lock);
    else zg_lock_drop(&window_lock);
}

// Of a window that was just mapped: no page is guarded yet, of which the blocks are dead.
static void guard_again(const struct window *window) {
    uint64_t end = window->first + window->pages;
    for (uint64_t page = window->first, next; page < end; page = next) {
        next = page + 1;
        if (zg_header_state(zg_alias_area.aliases[page].block.header) != zg_state_retired) continue;
        while (next < end && zg_header_state(zg_alias_area.aliases[next].block.header) == zg_state_retired) next++;
        zg_os_guard((void *)address_of(page), (next - page) * ZG_PAGE_BYTES);
    }
}

// The page is a block's that can be read still.
static bool is_open(uint64_t page) {
    enum zg_state found = zg_header_state(__atomic_load_n(&zg_alias_area.aliases[page].block.header, __ATOMIC_RELAXED));
    return found == zg_state_live || found == zg_state_freeing || found == zg_state_quarantined;
}

// Pages of a window become private ones, at the same addresses, with what is in them. Signals are held back. Under the lock.
static bool make_private(const struct window *window, char *copy) {
    char *at = (char *)address_of(window->first);
    for (uint32_t page = 0; page < window->pages; page++)
        if (is_open(window->first + page))
            __builtin_memcpy(copy + page * ZG_PAGE_BYTES, at + page * ZG_PAGE_BYTES, ZG_PAGE_BYTES);
    if (!zg_os_map_private(window->pages * ZG_PAGE_BYTES, at)) return false;
    for (uint32_t page = 0; page < window->pages; page++)
        if (is_open(window->first + page))
            __builtin_memcpy(at + page * ZG_PAGE_BYTES, copy + page * ZG_PAGE_BYTES, ZG_PAGE_BYTES);
    guard_again(window);
    return true;
}

void zg_window_leave(void) {
    zg_window_stop();
    if (chunk_count == 1 || is_left || !zg_is_single_threaded()) return;
    uint64_t signals;
    zg_lock_take(&window_lock);
    char *copy = zg_os_map(CHUNK_PAGES_MOST * ZG_PAGE_BYTES);
    bool is_held = zg_os_mask_signals(SIG_SETMASK, UINT64_MAX, &signals), done = copy && is_held;
    for (uint32_t number = 1; number < window_count && done; number++)
        if (windows[number].state == window_open) done = make_private(&windows[number], copy);
    for (uint32_t number = 1; number < chunk_count && done; number++)
        zg_os_release((void *)chunks[number].memory, chunks[number].pages * ZG_PAGE_BYTES);
    is_left = done;
    if (is_held) zg_os_restore_signals(signals);
    if (copy) zg_os_release(copy, CHUNK_PAGES_MOST * ZG_PAGE_BYTES);
    zg_lock_drop(&window_lock);
}

static bool has_blocks(const struct chunk *chunk, uint32_t page) { return chunk->free[page] < chunk->slots; }

// Of windows in use.
static void share_all(bool share) {
    for (uint32_t number = 1; number < window_count; number++)
        if (windows[number].state == window_open)
            zg_os_share_with_children((void *)address_of(windows[number].first), windows[number].pages * ZG_PAGE_BYTES,
                                      share);
}

// A filter of system calls lets the child do what it has to.
static bool may_copy(void) {
    return zg_os_may_call(SYS_mremap) && zg_os_may_call(SYS_mmap) && zg_os_may_call(SYS_madvise);
}

// Where windows are a choice, who forks again and again gets no more: each fork copies what lies there.
static void count_fork(void) {
    static uint32_t forks;
    if (is_of_some() && ++forks == FORKS_MOST) zg_window_stop();
}

void zg_window_fork_prepare(void) {
    count_fork();
    copied.start = NULL;
    copied.bytes = 0;
    uint32_t count = chunk_count;
    if (count == 1 || is_left) return;
    uint64_t bytes = 0;
    for (uint32_t number = 1; number < count; number++) bytes += chunks[number].pages * ZG_PAGE_BYTES;
    char *to = may_copy() ? zg_os_map_common(bytes) : NULL;
    if (to && zg_os_share_with_children(to, bytes, true) != 0) {
        zg_os_release(to, bytes);
        to = NULL;
    }
    if (!to) {
        // Slots that one of the two gives back would be the other's.
        zg_window_stop();
        zg_stats_degrade(zg_degradation_windows_shared);
        return share_all(true);
    }
    copied.start = to;
    copied.bytes = bytes;
    for (uint32_t number = 1; number < count; to += chunks[number++].pages * ZG_PAGE_BYTES)
        for (uint32_t page = 0; page < chunks[number].pages; page++)
            if (has_blocks(&chunks[number], page))
                __builtin_memcpy(to + page * ZG_PAGE_BYTES, (void *)(chunks[number].memory + page * ZG_PAGE_BYTES),
                                 ZG_PAGE_BYTES);
}

// The kernel does not map a window in a child: what lies there goes on in private pages.
static void copy_private(const struct window *window) {
    char *at = (char *)address_of(window->first), *from = (char *)chunks[window->chunk].memory;
    if (!zg_os_map_private(window->pages * ZG_PAGE_BYTES, at)) return;
    for (uint32_t page = 0; page < window->pages; page++)
        if (is_open(window->first + page))
            __builtin_memcpy(at + page * ZG_PAGE_BYTES, from + page * ZG_PAGE_BYTES, ZG_PAGE_BYTES);
}

// The process's windows lead to this copy of all chunks from now on.
static void map_copy(char *start, uint64_t bytes) {
    zg_os_share_with_children(start, bytes, false);
    char *at = start;
    for (uint32_t number = 1; number < chunk_count && at < start + bytes; number++) {
        chunks[number].memory = (uint64_t)at;
        at += chunks[number].pages * ZG_PAGE_BYTES;
    }
    // Where one is refused all of them become private, as where windows were left: a child of this child copies what it finds there.
    bool is_refused = false;
    for (uint32_t number = 1; number < window_count; number++) {
        struct window *window = &windows[number];
        if (window->state != window_open) continue;
        struct chunk *chunk = &chunks[window->chunk];
        void *place = (void *)address_of(window->first);
        if (!is_refused && zg_os_map_window((void *)chunk->memory, window->pages * ZG_PAGE_BYTES, place) != 0) {
            is_refused = true;
            zg_window_stop();
            number = 0;
            continue;
        }
        if (is_refused) copy_private(window);
        guard_again(window);
        if (chunk->window == number) chunk->populated = chunk->cursor;
    }
    if (is_refused) is_left = true;
    zg_store(&owner, (uint64_t)zg_os_pid());
}

void zg_window_fork_done(bool child) {
    if (child && copied.start) map_copy(copied.start, copied.bytes);
    else if (copied.start) zg_os_release(copied.start, copied.bytes);
    copied.start = NULL;
}

enum zg_window_fault zg_window_fault(uint64_t address) {
    int parent = (int)zg_load(&owner);
    if (ZG_LIKELY(!zg_alias_contains(address)) || !parent || is_left || parent == zg_os_pid())
        return zg_window_fault_other;
    // A child of vfork shares the windows.
    unsigned char present;
    if (zg_os_find_present((void *)(address & ~(ZG_PAGE_BYTES - 1)), ZG_PAGE_BYTES, &present) != -ENOMEM)
        return zg_window_fault_other;
    uint64_t bytes = 0;
    for (uint32_t number = 1; number < chunk_count; number++) bytes += chunks[number].pages * ZG_PAGE_BYTES;
    // The windows are not there, and the copy must not come to lie where they are to be.
    for (uint32_t number = 1; number < window_count; number++)
        if (windows[number].state == window_open)
            zg_os_blank((void *)address_of(windows[number].first), windows[number].pages * ZG_PAGE_BYTES);
    char *start = zg_os_map_common(bytes), *to = start;
    bool is_whole = start != NULL;
    for (uint32_t number = 1; number < chunk_count && is_whole; to += chunks[number++].pages * ZG_PAGE_BYTES)
        for (uint32_t page = 0; page < chunks[number].pages && is_whole; page++)
            if (has_blocks(&chunks[number], page))
                is_whole = zg_os_read_process(parent, to + page * ZG_PAGE_BYTES,
                                              chunks[number].memory + page * ZG_PAGE_BYTES, ZG_PAGE_BYTES);
    if (!is_whole) {
        static const char message[] =
            "zguard: a process made by a bare system call lacks blocks in windows, and its parent cannot be "
            "read: it ends. Run it with ZGUARD_OPTIONS=fence_windows=off\n";
        zg_os_write(2, message, sizeof message - 1);
        return zg_window_fault_lost;
    }
    map_copy(start, bytes);
    return zg_window_fault_mended;
}

#ifdef ZG_CHECK_INVARIANTS
const char *zg_window_broken(void) {
    if (chunk_count == 1) return NULL;
    const char *broken = NULL;
    zg_lock_take(&window_lock);
    uint64_t bytes = 0;
    for (uint32_t number = 1; number < chunk_count && !broken; number++) {
        const struct chunk *chunk = &chunks[number];
        uint32_t live = 0, open = 0;
        bytes += chunk->pages * ZG_PAGE_BYTES;
        for (uint32_t page = 0; page < chunk->pages; page++) {
            uint32_t used = 0;
            for (uint32_t word = 0; word < SLOTS_MOST / 64; word++)
                used += (uint32_t)__builtin_popcountll(chunk->used[page][word]);
            if (used + chunk->free[page] != chunk->slots)
                broken = "a page of a chunk has another number of free slots than is counted";
            live += used;
            open += chunk->free[page] != 0;
        }
        if (live != chunk->live || open != chunk->open) broken = "a chunk's blocks are not as it counts";
    }
    for (uint32_t number = 1; number < window_count && !broken; number++) {
        const struct window *window = &windows[number];
        uint32_t live = 0;
        for (uint64_t page = window->first; page < window->first + window->pages; page++) {
            enum zg_state found = zg_header_state(zg_alias_area.aliases[page].block.header);
            live += found == zg_state_live || found == zg_state_quarantined;
        }
        if (window->state == window_open ? live != window->live : live != 0)
            broken = "a window's blocks are not as it counts";
    }
    if (!broken && bytes != memory_bytes) broken = "chunks take another number of bytes than is counted";
    zg_lock_drop(&window_lock);
    return broken;
}
#endif
