// Records of blocks, stored apart from the blocks: states of blocks, and spans of large blocks.
// Readers in other processes rely on these layouts through struct zg_layout (zg_stats_page.h).
//
// Life of a block
//
//   state        malloc takes it    free                         evict                      reader may trust
//   fresh        -> live             invalid-free                 -                          nothing
//   live         -                   -> freeing (CAS; one wins)   -                          size, family, alloc stack
//   freeing      -                   double-free (lost the race)  -                          size, family, alloc stack
//   quarantined  -                   double-free                  -> reusable, held, retired all, contents are the fill
//   held         -                   double-free                  -> reusable or retired     all (retire.h)
//   retired      -                   double-free                  -> reusable (budget spent) all, contents are gone
//   reusable     -> live             double-free (evicted)        -                          size, family, both stacks
//
// Only the thread that moved a block to `freeing` may move it to `quarantined`, by a release store after the fill is
// complete. A reader that loads `quarantined` with acquire may therefore verify the contents.

#ifndef ZG_BLOCK_H
#define ZG_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

// The states, and their names in reports. A held block waits until its neighbors can be retired with it; reports call
// it quarantined, because the program sees no difference.
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

// Languages whose objects are recognized.
#define ZG_LANGUAGES(X) X(unknown, "unknown") X(swift, "swift") X(cxx, "c++")

enum zg_language {
#define ZG_X(name, text) zg_language_##name,
    ZG_LANGUAGES(ZG_X)
#undef ZG_X
};

// The allocation family of a block: which functions made it. dealloc-mismatch compares families.
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

// Returns true if the caller asked for an alignment. If such a block has at least ZG_PROGRAM_PAGES_LEAST bytes, for
// which libc would use a mapping of its own, the program may manage the pages itself (guard pages, write protection,
// files mapped over them, madvise for fork). free() must not touch these pages.
static inline bool zg_family_is_aligned(enum zg_alloc_family family) {
    return family == zg_family_aligned || family == zg_family_new_aligned || family == zg_family_new_array_aligned;
}
#define ZG_PROGRAM_PAGES_LEAST 131072

// Return names, such as "operator new", "quarantined", "c++"; NULL for an unknown number.
const char *zg_block_family_text(uint32_t kind);
const char *zg_block_state_text(uint32_t state);
const char *zg_block_language_text(uint32_t language);

// Invariants: 1. slack < slot bytes (requested size = slot bytes - slack), except that a block of 0 bytes has slack ==
// slot bytes. 2. alloc_stack is set in every state but fresh. 3. free_stack is set in quarantined, held, retired,
// reusable.
struct zg_block {
    // Bits 0-7 enum zg_state, 8-10 enum zg_alloc_family, 11-15 ZG_HEADER_…, 16-31 slack. free() changes it by
    // compare-and-swap, or by a plain store if the process has one thread.
    uint32_t header;
    uint32_t alloc_stack;
    uint32_t free_stack;
    uint16_t alloc_thread; // dense thread number, from 1; 65535: this number or a higher one
    uint16_t free_thread;
};

// Set for a freed block that was an object of a known class; there is one bit for each language. The death record names
// the class. The contents are trap words (Swift), or a trap pointer and then the fill (C++). The bit stays set until
// the block is live again.
#define ZG_HEADER_SWIFT 0x8000u
#define ZG_HEADER_CXX 0x4000u
// Set for a zombie whose saved contents were restored after a finding (on_finding=continue). The block is not verified,
// and never reused.
#define ZG_HEADER_CONTENTS_RESTORED 0x2000u
// A write to the freed block was reported, or a write beside the live block. The block is not checked again.
#define ZG_HEADER_CHANGED 0x1000u
// The block has pages that the program never touched: they have no memory and are not filled. In the header of a live
// large block: the block may have such pages.
#define ZG_HEADER_SPARSE 0x0800u

static inline uint32_t zg_block_header(enum zg_state state, enum zg_alloc_family family, uint32_t slack) {
    return (uint32_t)state | (uint32_t)family << 8 | slack << 16;
}
static inline enum zg_state zg_header_state(uint32_t header) { return (enum zg_state)(header & 0xff); }
static inline enum zg_alloc_family zg_header_family(uint32_t header) {
    return (enum zg_alloc_family)(header >> 8 & 0x7);
}
static inline uint32_t zg_header_zombie(uint32_t header) { return header & (ZG_HEADER_SWIFT | ZG_HEADER_CXX); }
// Returns the header with another state and all other bits unchanged.
static inline uint32_t zg_header_in_state(uint32_t header, enum zg_state state) {
    return (header & ~0xffu) | (uint32_t)state;
}
static inline uint32_t zg_header_slack(uint32_t header) { return header >> 16; }

// Record of a freed object, in addition to struct zg_block. Written by free(); valid while the header has a class bit.
struct zg_death {
    uint32_t class_number; // index into the table of classes, plus 1
    // Time of the free by the processor's clock, in units of 2^ZG_TIME_SHIFT ticks.
    uint32_t time;
};
#define ZG_TIME_SHIFT 20
// Values of `class_number` while the header has no class bit. WHOLE: all pages of the slot have memory.
#define ZG_DEATH_OF_WHOLE UINT32_MAX
// SPARSE: some pages had no memory at the last free. `time` is then the total size, in KiB, of all slots with untouched
// pages that had been freed until then.
#define ZG_DEATH_OF_SPARSE (UINT32_MAX - 1)

// A large block: a whole number of units of address space. The slack in `block.header` is unused (0).
struct zg_span {
    struct zg_block block;
    uint64_t start; // address of the block, aligned as asked for
    uint64_t size;  // requested bytes
    // First byte of the span. start - base < alignment.
    uint64_t base;
    // Size in units of ZG_UNIT_BYTES. For an isolated block: size in pages, including the guard page.
    uint32_t units;
    // Next span in the free list, or in the quarantine's list of large blocks; 0 ends it.
    uint32_t next;
    // Number of pages from `base` on that may contain nonzero bytes. For an isolated block, any nonzero number means
    // that some page may.
    uint32_t dirty;
    // enum zg_protection if the block is isolated (private_pages.h), otherwise 0.
    uint16_t protection;
    // The guard page of an isolated block was made readable and reads as zeros (overread.h).
    uint8_t guard_is_open;
    // The span may consist of several mappings, because pages of another span were moved into it.
    uint8_t several;
    struct zg_death death;
};

// A small block in a window (pages/window.h): it has a virtual page of its own, but shares the physical page with other
// blocks.
struct zg_alias {
    struct zg_block block; // its slack: number of bytes of the slot behind the block
    struct zg_death death;
    uint16_t start;      // offset of the block in the page
    uint16_t slot_bytes; // 0: no block was ever at this page
    uint32_t window;     // number of its window; 0: the page is free
};

// A node of the stack depot: one frame, and through `parent` its callers. The index of the innermost frame's node is
// the stack's id.
struct zg_depot_node {
    // Bits 0-47 return address, 48-62 number of frames from here to the outermost, 63 the stack was truncated.
    uint64_t pc_and_depth;
    uint32_t parent; // index of the caller's node; 0: outermost frame
    uint32_t hash;
};

#define ZG_FILL_FREED 0x55u
#define ZG_FILL_NEW 0xAAu
#define ZG_FILL_GAP 0xA5u // red zone of an isolated block
// Largest size of the red zone in front of an isolated block. Behind the block, all bytes up to the guard page are
// filled and checked.
#define ZG_LEAD_MOST 256

#endif
