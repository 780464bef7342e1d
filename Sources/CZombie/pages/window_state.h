// The state of windows: the tables of chunks and windows, chunk classes, queues and sums. For the files window….c and
// chunk….c alone; others call window.h. All of it is written under `lock`.

#ifndef ZG_WINDOW_STATE_H
#define ZG_WINDOW_STATE_H

#include "blocks/alias.h"
#include "blocks/size_class.h"
#include "include/zg_coverage.h"
#include "pages/isolation_policy.h"
#include "pages/queue.h"
#include "platform/lock.h"

enum {
    ZG_CHUNK_PAGES_MOST = ZG_POLICY_CHUNK_PAGES_MOST,
    ZG_CHUNK_SIZES = 5,                       // 8, 16, 32, 64, 128 pages
    ZG_PAGE_WORDS = ZG_CHUNK_PAGES_MOST / 64, // of a bit for each page of a chunk
    ZG_SLOTS_MOST = ZG_PAGE_BYTES / ZG_POLICY_SLOT_BYTES_LEAST,
    ZG_CHUNK_CLASSES = 2 * ZG_CLASS_COUNT, // of each size class: short-lived blocks, and long-lived ones
};
_Static_assert(ZG_POLICY_CHUNK_PAGES_LEAST << (ZG_CHUNK_SIZES - 1) == ZG_CHUNK_PAGES_MOST,
               "one size for each doubling");

// Physical pages of one chunk class. Invariants:
// 1. free_slots[p] counts the clear bits of used[p] below `slots`.
// 2. open_pages counts the pages with a free slot.
// 3. live is the number of set bits of `used`.
// 4. Pages of the current window below `cursor` are not handed out by way of it, until the window is used again.
// 5. Pages of the current window below `populated` were put into the page tables.
// 6. cursor, populated, touched <= pages.
struct zg_chunk {
    uint64_t memory;                   // address of its first mapping, which no block is used by
    uint32_t next_worthy;              // number of the next chunk in the list of its class; 0 ends the list
    uint32_t current_window;           // number of the window by way of which blocks are handed out; 0: none
    uint32_t newest_window;            // number of the newest of its open windows; 0: none
    uint32_t live;                     // blocks in use
    uint16_t pages, slots, slot_bytes; // slots of a page
    uint16_t cursor, populated;        // pages of the current window
    uint16_t touched;                  // pages that have memory
    uint16_t open_pages;
    uint8_t class;
    bool is_listed, is_current; // in its class
    bool is_empty;              // its pages were given back
    uint8_t free_slots[ZG_CHUNK_PAGES_MOST];
    uint64_t used[ZG_CHUNK_PAGES_MOST][ZG_SLOTS_MOST / 64];
    uint64_t reusable[ZG_PAGE_WORDS]; // pages that the current window may hand out: a bit for each
};

// A window is open while one of its blocks is in use, or it is its chunk's current one. It is closed, one inaccessible
// mapping, once all its blocks are dead; its records still explain late accesses. It is free once these are forgotten:
// its address space serves another chunk.
enum zg_window_phase { zg_window_free, zg_window_open, zg_window_closed };

// Invariants:
// 1. live counts the blocks of an open window that are live, or freed and not guarded yet.
// 2. pending_count is the number of set bits of `pending`, and those pages' blocks are freed.
// 3. mapped <= pages, and is approximate.
struct zg_window {
    uint64_t first; // page of the area
    uint32_t chunk;
    uint32_t next; // an open window of the same chunk, newest first; a closed one, oldest first; a free one of its size
    uint32_t next_pending; // in the queue of windows with pending pages
    uint16_t pages, live;
    uint8_t phase;
    bool has_lifetimes;      // blocks that outlived others of their age were recorded
    bool is_queued_pending;  // in the queue of windows with pending pages
    bool is_queued_to_unmap; // in the queue of retired windows of which pages are mapped
    uint16_t mapped;         // pages in the page tables, as far as is known
    uint32_t next_to_unmap;
    uint16_t pending_count;          // pages of freed and filled blocks that are not guarded yet
    uint64_t pending[ZG_PAGE_WORDS]; // a bit for each of these pages
};

// Chunks of one size class and one lifetime: blocks that die together become free together.
struct zg_chunk_class {
    uint32_t current;        // number of the chunk that hands blocks out; 0: none
    uint32_t worthy;         // list of chunks that are worth a window: number of the first one
    uint32_t opened_windows; // since its last chunk was made
    uint16_t chunk_pages;    // of its last chunk
    uint16_t retired_count;
    uint32_t retired[ZG_POLICY_LIFETIME_WINDOWS]; // windows by which no more blocks are handed out: a ring
};

// Invariants:
// 1. Numbers of chunks are 1 … chunk_count - 1, of windows 1 … window_count - 1; entries below both counts can be read.
// 2. memory_bytes is the sum of the chunks' pages.
// 3. closed.amount counts the pages of closed windows, and that queue holds all of them.
// 4. pending.amount counts the slots of all pending pages in bytes, and that queue holds every window with pending
//    pages.
// 5. to_unmap.amount is the sum of `mapped` of all windows.
// 6. Pages of the area from used_pages on belong to no window.
struct zg_windows {
    // The tables, and the bytes of them that can be read. Benchmarks/memory.py reads these four words.
    struct zg_chunk *chunks;
    struct zg_window *windows;
    uint64_t committed_chunk_bytes, committed_window_bytes;
    struct zg_lock lock;
    uint32_t chunk_count, window_count;
    uint64_t used_pages; // of the area
    uint64_t memory_bytes;
    uint32_t free_windows[ZG_CHUNK_SIZES]; // lists, by size
    struct zg_queue closed;                // amount: pages
    struct zg_queue pending;               // amount: bytes of slots
    struct zg_queue to_unmap;              // amount: pages
    struct zg_chunk_class classes[ZG_CHUNK_CLASSES];
    enum zg_coverage_reason lacking; // why there was no memory or no window for a block when that was last so
    uint64_t owner;                  // the process that the windows are mapped in
    bool are_private;                // all pages of windows are private ones by now: no chunk is mapped any more
};
extern struct zg_windows zg_windows;

ZG_INLINE void zg_windows_take_lock(void) { zg_lock_take(&zg_windows.lock); }
ZG_INLINE void zg_windows_drop_lock(void) { zg_lock_drop(&zg_windows.lock); }

ZG_INLINE struct zg_chunk *zg_chunk_by_number(uint32_t number) { return &zg_windows.chunks[number]; }
ZG_INLINE uint32_t zg_chunk_number(const struct zg_chunk *chunk) { return (uint32_t)(chunk - zg_windows.chunks); }
ZG_INLINE uint64_t zg_chunk_bytes(const struct zg_chunk *chunk) { return chunk->pages * ZG_PAGE_BYTES; }
ZG_INLINE bool zg_chunk_has_blocks(const struct zg_chunk *chunk, uint32_t page) {
    return chunk->free_slots[page] < chunk->slots;
}

ZG_INLINE struct zg_window *zg_window_by_number(uint32_t number) { return &zg_windows.windows[number]; }
ZG_INLINE struct zg_chunk *zg_window_chunk(const struct zg_window *window) { return zg_chunk_by_number(window->chunk); }
ZG_INLINE uint64_t zg_window_bytes_of(const struct zg_window *window) { return window->pages * ZG_PAGE_BYTES; }
ZG_INLINE uint64_t zg_window_page_address(uint64_t page) { return zg_alias_area.base + page * ZG_PAGE_BYTES; }
ZG_INLINE char *zg_window_start(const struct zg_window *window) {
    return (char *)zg_window_page_address(window->first);
}
// Blocks are handed out by way of it.
ZG_INLINE bool zg_window_is_current(uint32_t number) {
    return zg_window_chunk(zg_window_by_number(number))->current_window == number;
}

// Reserves the tables. False where the kernel refuses them.
bool zg_windows_reserve_tables(void);
// Makes a record for one more chunk or window readable. False where there is no room or no memory. Under the lock.
bool zg_windows_make_room_for_chunk(void);
bool zg_windows_make_room_for_window(void);

#endif
