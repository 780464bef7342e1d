// Finds the block from which a bad pointer was read: the pointer consists of the bytes with which the runtime fills
// freed memory, red zones or new memory.

#include "faults/origin.h"

#include "blocks/fill.h"

// Greatest distance from a fill at which a value counts as that fill with a field's offset: the size of a large
// structure.
#define FIELD_REACH ((uint64_t)1 << 20)

static bool near(uint64_t value, uint64_t base) { return value - base + FIELD_REACH < 2 * FIELD_REACH; }

// Whether a value was read from memory filled with `byte`, perhaps with a field's offset added. The top byte may be
// missing, because the Swift runtime masks it off references. The low bytes may differ, as in a word that was read
// across the end of a block.
static bool is_fill(uint64_t value, uint8_t byte) {
    uint64_t word = UINT64_C(0x0101010101010101) * byte;
    return near(value, word) || near(zg_arch_untag(value), zg_arch_untag(word)) ||
           near(value, word & UINT64_C(0x00ffffffffffffff)) || value >> 48 == word >> 48;
}

// Whether a value is the fill truncated to 32 bits, zero- or sign-extended. Such a value alone is no proof.
static bool is_cut_fill(uint64_t value, uint8_t byte) {
    uint64_t word = UINT64_C(0x01010101) * byte, high = value >> 32;
    return (high == 0 || high == UINT32_MAX) && (uint32_t)value - word + 4096 < FIELD_REACH + 4096;
}

static const struct {
    enum zg_origin_source source;
    uint8_t byte;
} fills[] = {{zg_origin_freed, ZG_FILL_FREED}, {zg_origin_gap, ZG_FILL_GAP}, {zg_origin_new, ZG_FILL_NEW}};

enum zg_origin_source zg_origin_source_of(const struct zg_fault *fault, uint64_t value, bool *certain) {
    for (size_t i = 0; i < ZG_ARRAY_COUNT(fills); i++) {
        if (fills[i].source == zg_origin_new && !fault->fills_new) continue;
        *certain = is_fill(value, fills[i].byte);
        if (*certain || is_cut_fill(value, fills[i].byte)) return fills[i].source;
    }
    return zg_origin_none;
}

bool zg_origin_is_freed(const struct zg_block_view *view) {
    return view->state == zg_state_quarantined || view->state == zg_state_freeing || view->state == zg_state_retired ||
           view->state == zg_state_held;
}

static bool is_origin(const struct zg_fault *fault, enum zg_origin_source source, const struct zg_block_view *view) {
    switch (source) {
    case zg_origin_freed: return zg_origin_is_freed(view);
    case zg_origin_gap: return view->state == zg_state_live && fault->is_isolated(view);
    case zg_origin_new: return view->state == zg_state_live;
    case zg_origin_none: break;
    }
    return false;
}

// Whether the word at `place` lies in a freed block and holds the value. The check of the word makes a wrong guess of
// the instruction or the distance harmless: only by chance would the guessed place hold the value.
static bool is_read_at(const struct zg_fault *fault, uint64_t place, uint64_t value) {
    struct zg_block_view dead;
    uint64_t word;
    return fault->read_word && fault->is_ours(place) && fault->lookup(place, &dead) && zg_origin_is_freed(&dead) &&
           fault->read_word(place, &word) && word == value;
}

// Whether `pointer` points into a live block, or directly behind its last byte, and `place` lies behind that block.
// Sets `live->offset` to the place.
static bool is_behind_live(const struct zg_fault *fault, uint64_t pointer, uint64_t place, struct zg_block_view *live) {
    if (!fault->is_ours(pointer) || !fault->lookup(pointer, live) || live->state != zg_state_live) return false;
    live->offset = (int64_t)(place - live->start);
    return pointer - live->start <= live->size && place - live->start >= live->size;
}

// Finds the instruction in front of the faulting one that loaded the value, and the block that its base register points
// into. x86-64 code cannot be decoded backwards, so each byte is tried as the start of an instruction.
static bool find_loading(const struct zg_fault *fault, uint64_t value, struct zg_origin *origin) {
    for (int back = ZG_ARCH_CODE_UNIT; back <= fault->before_count; back += ZG_ARCH_CODE_UNIT) {
        const uint8_t *code = fault->before + ZG_FAULT_CODE_BEFORE - back;
        uint64_t base, place;
        if (!zg_arch_loaded_from(code, back, &fault->registers, value, &base, &place)) continue;
        if (!is_read_at(fault, place, value)) continue;
        if (is_behind_live(fault, base, place, &origin->block)) {
            origin->is_overrun = true;
            origin->evidence = "the pointer was loaded relative to this block";
            return true;
        }
        if (!fault->lookup(place, &origin->block)) continue;
        origin->evidence = "the pointer was loaded from this block";
        return true;
    }
    return false;
}

// Looks for a pointer into a live block and a register whose sum is the address of a word behind the block that still
// holds the value.
static bool find_distance(const struct zg_fault *fault, const uint64_t *words, int count, uint64_t value,
                          struct zg_origin *origin) {
    for (int i = 0; i < count; i++)
        for (int j = 0; j < ZG_ARCH_REGISTER_COUNT && fault->is_ours(words[i]); j++) {
            uint64_t distance = fault->registers.value[j], place = words[i] + distance;
            struct zg_block_view live;
            if (!(fault->registers.known >> j & 1) || distance < sizeof value || distance > FIELD_REACH) continue;
            if (!is_behind_live(fault, words[i], place, &live) || !is_read_at(fault, place, value)) continue;
            *origin = (struct zg_origin){.block = live,
                                         .is_overrun = true,
                                         .evidence =
                                             "a register holds the distance from this block to the word that was read"};
            return true;
        }
    return false;
}

struct words {
    const uint64_t *at;
    int count;
    const char *alone, *among_others; // evidence if the words point into one such block, or into several
};

// Returns the index of the first word that points into memory of this kind, from `first` on; the count if none does.
// Skips `except`.
static int find_pointer(const struct zg_fault *fault, enum zg_origin_source source, const struct words *words,
                        int first, const struct zg_block_view *except, struct zg_block_view *view) {
    for (int i = first; i < words->count; i++)
        if (fault->lookup(words->at[i], view) && is_origin(fault, source, view) &&
            !(except && view->start == except->start))
            return i;
    return words->count;
}

// Takes the block of the first word that points into memory of this kind, and returns the index of that word; the count
// if none does.
static int take_pointer(const struct zg_fault *fault, enum zg_origin_source source, const struct words *words,
                        struct zg_origin *origin) {
    struct zg_block_view other;
    int at = find_pointer(fault, source, words, 0, NULL, &origin->block);
    bool is_alone = find_pointer(fault, source, words, at, &origin->block, &other) == words->count;
    origin->evidence = is_alone ? words->alone : words->among_others;
    return at;
}

bool zg_origin_find(const struct zg_fault *fault, enum zg_origin_source source, uint64_t value,
                    struct zg_origin *origin) {
    *origin = (struct zg_origin){0};
    if (source == zg_origin_freed && find_loading(fault, value, origin)) return true;
    // A function without calls keeps its variables below the stack pointer, where other functions leave old words, too.
    if (source == zg_origin_freed && find_distance(fault, fault->below, fault->below_count, value, origin)) return true;
    const struct words registers = {fault->pointers, fault->pointer_count, "a register points into this block",
                                    "a register points into this block, while others point into similar blocks"};
    if (take_pointer(fault, source, &registers, origin) < registers.count) return true;
    const struct words stack = {fault->stack, fault->stack_count, "a word on the stack points into this block",
                                "a word on the stack points into this block, while others point into similar blocks"};
    int at = take_pointer(fault, source, &stack, origin);
    // Only stack words in front of the word that was found count as base pointers.
    if (source == zg_origin_freed && find_distance(fault, fault->stack, at, value, origin)) return true;
    return at < fault->stack_count;
}
