// The state of windows: tables of chunks and windows, chunk classes, queues and sums. For the files window….c and
// chunk….c only; other files use window.h. All writes need `lock`.

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
    ZG_PAGE_WORDS = ZG_CHUNK_PAGES_MOST / 64, // words of a bit set with one bit for each page of a chunk
    ZG_SLOTS_MOST = ZG_PAGE_BYTES / ZG_POLICY_SLOT_BYTES_LEAST,
    ZG_CHUNK_CLASSES = 2 * ZG_CLASS_COUNT, // each size class has one for short-lived and one for long-lived blocks
};
_Static_assert(ZG_POLICY_CHUNK_PAGES_LEAST << (ZG_CHUNK_SIZES - 1) == ZG_CHUNK_PAGES_MOST,
               "one size for each doubling");

// Physical pages of one chunk class. Invariants:
// 1. free_slots[p] counts the clear bits of used[p] below `slots`.
// 2. open_pages counts the pages with a free slot.
// 3. live is the number of set bits of `used`.
// 4. Pages of the current window below `cursor` get no more blocks until the window becomes current again.
// 5. Pages of the current window below `populated` were put into the page tables.
// 6. cursor, populated and touched are at most `pages`.
struct zg_chunk {
    uint64_t memory;                   // address of its first mapping, at which no block is allocated
    uint32_t next_worthy;              // number of the next chunk in the list of its class; 0: last
    uint32_t current_window;           // number of the window in which blocks are allocated; 0: none
    uint32_t newest_window;            // number of the newest of its open windows; 0: none
    uint32_t live;                     // number of used slots
    uint16_t pages, slots, slot_bytes; // slots: number of slots in a page
    uint16_t cursor, populated;        // page numbers in the current window; see invariants 4 and 5
    uint16_t touched;                  // number of pages, from the first, that have memory
    uint16_t open_pages;
    uint8_t class;
    bool is_listed, is_current; // is_listed: on the list of its class; is_current: current chunk of its class
    bool is_empty;              // the memory of its pages was released
    uint8_t free_slots[ZG_CHUNK_PAGES_MOST];
    uint64_t used[ZG_CHUNK_PAGES_MOST][ZG_SLOTS_MOST / 64];
    uint64_t reusable[ZG_PAGE_WORDS]; // bit set of pages in which the current window may allocate
};

// A window is open while one of its blocks is in use or while it is its chunk's current window. It is closed, as one
// inaccessible mapping, once all of its blocks are freed; its records then still explain late accesses. It is free once
// these records are cleared; its address space can then be used for another chunk.
enum zg_window_phase { zg_window_free, zg_window_open, zg_window_closed };

// Invariants:
// 1. live counts the blocks of an open window that are live, or freed and not guarded yet.
// 2. pending_count is the number of set bits of `pending`; the blocks of these pages are freed.
// 3. mapped <= pages, and is approximate.
struct zg_window {
    uint64_t first; // number of the window's first page in the area
    uint32_t chunk;
    // Next window in the list for this phase: open windows of the chunk, newest first; closed windows, oldest first; or
    // free windows of the same size.
    uint32_t next;
    uint32_t next_pending; // in the queue of windows with pending pages
    uint16_t pages, live;
    uint8_t phase;
    bool has_lifetimes;      // the contexts of blocks that outlived most others were recorded
    bool is_queued_pending;  // in the queue of windows with pending pages
    bool is_queued_to_unmap; // in the queue of retired windows with mapped pages
    uint16_t mapped;         // number of pages that are probably in the page tables
    uint32_t next_to_unmap;
    uint16_t pending_count;          // number of pages of freed and filled blocks that are not guarded yet
    uint64_t pending[ZG_PAGE_WORDS]; // bit set of these pages
};

// Chunk class: chunks of one size class and one lifetime class, so that memory of blocks with similar lifetimes becomes
// free together.
struct zg_chunk_class {
    uint32_t current;        // number of the chunk in which blocks are allocated; 0: none
    uint32_t worthy;         // number of the first chunk in the list of chunks with enough free pages for a window
    uint32_t opened_windows; // number of windows opened since its last chunk was made
    uint16_t chunk_pages;    // size of its last chunk in pages
    uint16_t retired_count;
    // Ring of the windows that were retired last.
    uint32_t retired[ZG_POLICY_LIFETIME_WINDOWS];
};

// Invariants:
// 1. Chunks have the numbers 1 … chunk_count - 1, windows 1 … window_count - 1; entries below both counts are readable.
//    Both counts are 0 until the tables are reserved.
// 2. memory_bytes is the size of all chunks' pages.
// 3. The queue `closed` contains all closed windows, and its amount counts their pages.
// 4. The queue `pending` contains every window with pending pages, and its amount is the size of all pending pages'
//    slots in bytes.
// 5. to_unmap.amount is the sum of `mapped` over all windows.
// 6. Pages of the area from used_pages on belong to no window.
struct zg_windows {
    // The tables, and their readable bytes. Benchmarks/memory.py reads these four words.
    struct zg_chunk *chunks;
    struct zg_window *windows;
    uint64_t committed_chunk_bytes, committed_window_bytes;
    struct zg_lock lock;
    uint32_t chunk_count, window_count;
    uint64_t used_pages; // first unused page of the area
    uint64_t memory_bytes;
    uint32_t free_windows[ZG_CHUNK_SIZES]; // first window of each size's free list
    struct zg_queue closed;                // amount: pages
    struct zg_queue pending;               // amount: bytes of pending slots
    struct zg_queue to_unmap;              // amount: pages
    struct zg_chunk_class classes[ZG_CHUNK_CLASSES];
    // Reason why a block gets no window, from the latest attempt to find or make a chunk.
    enum zg_coverage_reason lacking;
    uint64_t owner; // process in which the windows are mapped
    // All pages of windows have become private ones; no chunk is mapped any more.
    bool are_private;
};
extern struct zg_windows zg_windows;

ZG_INLINE void zg_windows_take_lock(void) { zg_lock_take(&zg_windows.lock); }
ZG_INLINE void zg_windows_drop_lock(void) { zg_lock_drop(&zg_windows.lock); }

// Returns true if there is a chunk. False before the tables are reserved.
ZG_INLINE bool zg_windows_has_chunks(void) { return zg_windows.chunk_count > 1; }
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
// Returns true if this is the window in which its chunk allocates blocks.
ZG_INLINE bool zg_window_is_current(uint32_t number) {
    return zg_window_chunk(zg_window_by_number(number))->current_window == number;
}

// Reserves the tables. False if the kernel refuses.
bool zg_windows_reserve_tables(void);
// Make the record of one more chunk or window readable. False if there is no room or no memory. Under the lock.
bool zg_windows_make_room_for_chunk(void);
bool zg_windows_make_room_for_window(void);

#endif
