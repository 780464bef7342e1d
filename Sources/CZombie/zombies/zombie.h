// Zombies: freed blocks that were objects of a known class. Writes and verifies their trap words, and maps a trap
// address back to the object.
//
//   Swift  word 0   class pointer into the trap region: calls, casts, type names
//          word 1   reference count that points to a trap page: retain, release, weak, unowned, uniqueness checks
//          others trap words: use of a stored reference
//   C++    word 0   virtual table pointer into the trap region; the other words have the fill
//
// Filling and verifying: hot path. Finding: any context. No lock.

#ifndef ZG_ZOMBIE_H
#define ZG_ZOMBIE_H

#include "blocks/fill.h"
#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "include/zg_block.h"
#include "platform/arch.h"
#include "zombies/classes.h"
#include "zombies/trap.h"

// Reserves trap regions and tables. Turns recognition off if the address space has no room. `keep_contents`: save the
// contents of freed objects, because the program goes on after a finding.
void zg_zombie_init(bool on, bool keep_contents);

// Saved contents of zombies, at the same offsets as in the slab heap. 0: contents are not saved.
extern uint64_t zg_zombie_saved_contents;

// The words that a zombie must contain.
struct zg_zombie_pattern {
    uint64_t head[2];    // words 0 and 1
    uint64_t word, step; // word 2, and the difference between adjacent words
};
ZG_INLINE struct zg_zombie_pattern zg_zombie_swift_pattern(const struct zg_slab *slab, uint64_t number, uint64_t byte) {
    return (struct zg_zombie_pattern){
        {slab->trap_isa + zg_trap_isa_distance(number), slab->trap_side + zg_trap_side_distance(number)},
        slab->trap_word + zg_trap_word_distance(byte) + 2 * ZG_TRAP_WORD_STEP,
        ZG_TRAP_WORD_STEP};
}
ZG_INLINE struct zg_zombie_pattern zg_zombie_cxx_pattern(const struct zg_slab *slab, uint64_t number) {
    return (struct zg_zombie_pattern){{slab->trap_isa + zg_trap_isa_distance(number), ZG_FILL_WORD}, ZG_FILL_WORD, 0};
}
// Pattern of a large block. Most large blocks are array storage, whose elements have no names, so only the header words
// are traps.
struct zg_zombie_pattern zg_zombie_span_pattern(uint32_t bits, uint32_t number);
// Pattern of any zombie, by its address.
struct zg_zombie_pattern zg_zombie_pattern_at(uint64_t start, uint32_t header);

// Fills the block with the pattern. `bytes` is a multiple of 16 and at least 16.
ZG_INLINE void zg_zombie_write(void *start, uint64_t bytes, struct zg_zombie_pattern pattern) {
    zg_vector *at = start, *end = (void *)((char *)start + bytes);
    *at++ = (zg_vector){pattern.head[0], pattern.head[1]};
    zg_vector value = {pattern.word, pattern.word + pattern.step}, step = {2 * pattern.step, 2 * pattern.step};
    for (; at < end; value += step) *at++ = value;
}

ZG_INLINE bool zg_zombie_is_written(const void *start, uint64_t bytes, struct zg_zombie_pattern pattern) {
    const zg_vector *at = start, *end = (const void *)((const char *)start + bytes);
    zg_vector changed = *at++ ^ (zg_vector) { pattern.head[0], pattern.head[1] };
    zg_vector value = {pattern.word, pattern.word + pattern.step}, step = {2 * pattern.step, 2 * pattern.step};
    for (; at < end; value += step) changed |= *at++ ^ value;
    return !(changed[0] | changed[1]);
}

ZG_INLINE uint64_t zg_zombie_word(struct zg_zombie_pattern pattern, uint64_t index) {
    return index < 2 ? pattern.head[index] : pattern.word + (index - 2) * pattern.step;
}

// Returns the header bits of a freed block; 0 if the block held no object of a known class.
ZG_INLINE uint32_t zg_zombie_header_bits(struct zg_freed_class dead) {
    return !dead.class_number ? 0 : dead.language == zg_language_swift ? ZG_HEADER_SWIFT : ZG_HEADER_CXX;
}

ZG_INLINE struct zg_death zg_zombie_death(uint32_t class_number) {
    return (struct zg_death){class_number, (uint32_t)(zg_arch_ticks() >> ZG_TIME_SHIFT)};
}

// Whether the view's offset lies in the words that identify the class: two words of a Swift object, one word of a C++
// object.
bool zg_zombie_is_header(const struct zg_block_view *view);

// Writes the trap words of an object freed in this slot. Returns its header bits. Returns 0 and writes nothing if the
// slot crosses the end of the trap region. `bytes` is a multiple of 16 and at least 16.
ZG_INLINE uint32_t zg_zombie_make(const struct zg_slab *slab, uint64_t number, uint64_t start, uint64_t bytes,
                                  enum zg_language language) {
    uint64_t byte = start - slab->base;
    if (language == zg_language_cxx) {
        zg_zombie_write((void *)start, bytes, zg_zombie_cxx_pattern(slab, number));
        return ZG_HEADER_CXX;
    }
    if (ZG_UNLIKELY((byte ^ (byte + bytes - 1)) >> zg_traps.words_shift)) return 0;
    zg_zombie_write((void *)start, bytes, zg_zombie_swift_pattern(slab, number, byte));
    return ZG_HEADER_SWIFT;
}

// The object that a trap address stands for.
struct zg_zombie_hit {
    enum zg_trap_part part; // zg_trap_none: not a trap address
    bool has_block;         // the object was found
    bool ambiguous;         // several zombies share the trap window
    struct zg_block_view block;
    // zg_trap_word: offset of the word in the object.
    uint64_t byte;
    // Distance from the trap pointer: offset in the metadata, in the side table, or behind the stored reference.
    int64_t offset;
};
// Finds the object for a trap address. If several objects share the trap window, the pointers in `likely` decide
// between them.
struct zg_zombie_hit zg_zombie_find(uint64_t address, const uint64_t *likely, int likely_count);

// Reads the word that the trap word replaced. False if contents are not saved.
bool zg_zombie_former_word(const struct zg_zombie_hit *hit, uint64_t *word);

// Stores the current time in the statistics page, which dates the freed blocks of a core file. Any context.
void zg_zombie_note_time(void);
// Returns the time of the free in nanoseconds since 1970; 0 if unknown.
uint64_t zg_zombie_time_ns(const struct zg_death *death);

#endif
