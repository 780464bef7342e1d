// The out-of-band record of every block, its life cycle, and the spans of large blocks.
// Readers in other processes rely on these layouts through struct zg_layout (zg_stats_page.h).
//
// Life of a block
//
//   state        malloc takes it        free                         evict                      reader may trust
//   fresh        -> live                 invalid-free                 -                          nothing
//   live         -                       -> freeing (CAS; one wins)   -                          size, kind, alloc stack
//   freeing      -                       double-free (lost the race)  -                          size, kind, alloc stack
//   quarantined  -                       double-free                  -> reusable, held, retired all, contents are the fill
//   held         -                       double-free                  -> reusable or retired     all (retire.h)
//   retired      -                       double-free                  -> reusable (budget spent) all, contents are gone
//   reusable     -> live                 double-free (evicted)        -                          size, kind, both stacks
//
// Only the thread that moved a block to `freeing` may move it on to `quarantined`, and only after the fill is complete
// (release store), so whoever sees `quarantined` (acquire) may verify the contents.

#ifndef ZG_BLOCK_H
#define ZG_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

// The states, and what readers call them. A block that waits for its neighbours is, for its user, as dead as a quarantined one.
#define ZG_STATES(X)                                                                                                   \
    X(fresh, "unused")                                                                                                 \
    X(live, "live")                                                                                                    \
    X(freeing, "freeing")                                                                                              \
    X(quarantined, "quarantined")                                                                                      \
    X(retired, "retired")                                                                                              \
    X(reusable, "reusable")                                                                                            \
    X(held, "quarantined")

enum zg_state {
#define ZG_X(name, text) zg_state_##name,
    ZG_STATES(ZG_X)
#undef ZG_X
};

// Languages whose objects are recognised.
#define ZG_LANGUAGES(X) X(unknown, "unknown") X(swift, "swift") X(cxx, "c++")

enum zg_language {
#define ZG_X(name, text) zg_language_##name,
    ZG_LANGUAGES(ZG_X)
#undef ZG_X
};

// Which family of functions made the block. dealloc-mismatch compares families.
#define ZG_ALLOC_FAMILIES(X)                                                                                           \
    X(malloc, "malloc")                                                                                                \
    X(aligned, "aligned_alloc")                                                                                        \
    X(new, "operator new")                                                                                             \
    X(new_array, "operator new[]")                                                                                     \
    X(new_aligned, "operator new(std::align_val_t)")                                                                   \
    X(new_array_aligned, "operator new[](std::align_val_t)")

enum zg_alloc_family {
#define ZG_X(name, text) zg_family_##name,
    ZG_ALLOC_FAMILIES(ZG_X)
#undef ZG_X
        zg_family_count
};

// An alignment was asked for. Such programs may use the pages by themselves (guard pages, write protection, files mapped over them,
// advice for fork), and free is then not to touch them: from the size on from which libc has a mapping for a block.
static inline bool zg_family_is_aligned(enum zg_alloc_family family) {
    return family == zg_family_aligned || family == zg_family_new_aligned || family == zg_family_new_array_aligned;
}
#define ZG_PROGRAMS_LEAST 131072

// "operator new", "quarantined", "c++"; NULL for a number that is none.
const char *zg_block_family_text(uint32_t kind);
const char *zg_block_state_text(uint32_t state);
const char *zg_block_language_text(uint32_t language);

// Invariants: 1. slack < slot bytes (requested size = slot bytes - slack), except that a block of 0 bytes has
// slack == slot bytes. 2. alloc_stack is set in every state but fresh. 3. free_stack is set in quarantined, retired, reusable.
struct zg_block {
    // Bits 0-7 enum zg_state, 8-10 enum zg_alloc_family, 11-15 ZG_HEADER_…, 16-31 slack; changed by compare-and-swap at free.
    uint32_t header;
    uint32_t alloc_stack;
    uint32_t free_stack;
    uint16_t alloc_thread; // dense thread number, from 1; 65535 stands for every later thread
    uint16_t free_thread;
};

// A dead block that was an object of a known class, and of which language: its death record names the class and its contents
// are trap words (Swift), or the fill behind a trap pointer (C++). Both bits stay until the block is live again.
#define ZG_HEADER_SWIFT 0x8000u
#define ZG_HEADER_CXX 0x4000u
// A zombie whose contents were given back after its finding (on_finding=continue): not verified, never reused.
#define ZG_HEADER_OPENED 0x2000u
// A late write to the block was reported, or, of a live block with pages of its own, a write beside it: it is not looked for again.
#define ZG_HEADER_CHANGED 0x1000u
// It has pages that the program never touched: they have no memory, and are not filled. Of a live large block: it may have.
#define ZG_HEADER_SPARSE 0x0800u

static inline uint32_t zg_block_header(enum zg_state state, enum zg_alloc_family family, uint32_t slack) {
    return (uint32_t)state | (uint32_t)family << 8 | slack << 16;
}
static inline enum zg_state zg_header_state(uint32_t header) { return (enum zg_state)(header & 0xff); }
static inline enum zg_alloc_family zg_header_family(uint32_t header) {
    return (enum zg_alloc_family)(header >> 8 & 0x7);
}
static inline uint32_t zg_header_zombie(uint32_t header) { return header & (ZG_HEADER_SWIFT | ZG_HEADER_CXX); }
// The same block in another state; class bits are kept.
static inline uint32_t zg_header_in_state(uint32_t header, enum zg_state state) {
    return (header & ~0xffu) | (uint32_t)state;
}
static inline uint32_t zg_header_slack(uint32_t header) { return header >> 16; }

// What is kept of an object beyond its block's record; written at its free, valid while the header has a class bit.
struct zg_death {
    uint32_t class_number; // in the table of classes
    uint32_t time;         // of the free, in units of 2^ZG_TIME_SHIFT ticks of the processor's clock
};
#define ZG_TIME_SHIFT 20
// In the place of the number, while the header has no class bit: all pages of the slot have memory.
#define ZG_DEATH_OF_WHOLE UINT32_MAX
// Or some had none at its last free, and `time` says when that was, in KiB of such slots that were freed.
#define ZG_DEATH_OF_SPARSE (UINT32_MAX - 1)

// A large block: whole units of address space of its own. `block.header`'s slack is unused (0).
struct zg_span {
    struct zg_block block;
    uint64_t start;        // address of the block, aligned as asked for
    uint64_t size;         // requested bytes
    uint64_t base;         // first byte of the span, start - base < alignment
    uint32_t units;        // of ZG_UNIT_BYTES; of a fenced block: pages, with the guard behind it
    uint32_t next;         // free list, or the quarantine's list of large blocks; 0 ends it
    uint32_t dirty;        // pages from `base` on that may not be zero; of a fenced block: whether any may
    uint16_t fenced;       // a block with pages of its own (fence.h): enum zg_protection; 0: not fenced
    uint8_t guard_is_open; // of a fenced block: the guard behind it reads as zeros (overread.h)
    uint8_t several;       // its pages came from another span, and are mappings by themselves
    struct zg_death death;
};

// A block at a page of its own in a window (pages/window.h): several pages lead to the same memory, in which the blocks lie packed.
struct zg_alias {
    struct zg_block block; // slack: what its slot has behind it
    struct zg_death death;
    uint16_t start;      // bytes from the page's start
    uint16_t slot_bytes; // 0: no block was ever at this page
    uint32_t window;     // its number; 0: the page may be handed out
};

// A node of the stack depot: one frame and, through `parent`, its callers. A stack id is the index of its innermost node.
struct zg_depot_node {
    uint64_t pc_and_depth; // bits 0-47 return address, 48-62 number of frames from here outwards, 63 there were more
    uint32_t parent;       // 0: outermost
    uint32_t hash;
};

#define ZG_FILL_FREED 0x55u
#define ZG_FILL_NEW 0xAAu
#define ZG_FILL_GAP 0xA5u // what is left free around a block with pages of its own
#define ZG_LEAD_MOST 256  // bytes in front of such a block that are filled and looked at; behind it all are

#endif
