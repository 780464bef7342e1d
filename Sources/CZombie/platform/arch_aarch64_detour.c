// Detours on AArch64: inline hooks of functions in other images. A branch to the detour replaces the function's first
// instruction, which runs in the detour after a call of the observer. If the detour is out of a branch's reach (128
// MiB), three instructions move, to make room for a branch through x16. Callees may overwrite x16, so no caller relies
// on it. A landing pad of branch target identification (BTI) stays in front. A function whose instructions cannot be
// moved is left unchanged.
// Encodings: the Arm Architecture Reference Manual (DDI 0487), section C4.1.
// Start-up; pure, no lock.

#if defined(__aarch64__)

#include "platform/arch.h"
#include "platform/arch_aarch64_decode.h"

enum { BRANCH_REACH = (1 << 27) - 4096, FAR_WORDS = 3, SCRATCH = 16, SCRATCH_BACK = 17 };
enum { WORD = 4, LOOKED_AT = 192, FRAME_BYTES = 192, SAVED_AT = 32, SAVED = 18, SP = 31 };
enum { ADD_SP = 0x910303ff, SUB_SP = 0xd10303ff, BTI_C = 0xd503245f, PACIASP = 0xd503233f, PACIBSP = 0xd503237f };

#define BITS(from, count) zg_a64_bits(word, from, count)

static bool is_bti(uint32_t word) { return (word & 0xffffff3f) == 0xd503241f; }
static bool is_pad(uint32_t word) { return is_bti(word) || word == PACIASP || word == PACIBSP; }

static uint32_t word_at(const uint8_t *code, uint32_t at) {
    uint32_t word;
    __builtin_memcpy(&word, code + at, sizeof word);
    return word;
}

struct writer {
    uint8_t *at;
    bool is_possible;
};

static void put(struct writer *to, uint32_t word) {
    __builtin_memcpy(to->at, &word, sizeof word);
    to->at += sizeof word;
}

// Encodes a distance, in units of `1 << scale` bytes, as a field of `count` bits at bit `from`. Clears is_possible if
// it does not fit.
static uint32_t field(struct writer *to, int64_t distance, int scale, int from, int count) {
    int64_t units = distance >> scale, most = INT64_C(1) << (count - 1);
    if (distance & ((INT64_C(1) << scale) - 1) || units < -most || units >= most) to->is_possible = false;
    return ((uint32_t)units & (uint32_t)((UINT64_C(1) << count) - 1)) << from;
}

static void put_branch(struct writer *to, uint64_t target) {
    put(to, 0x14000000 | field(to, (int64_t)(target - (uint64_t)to->at), 2, 0, 26));
}

// Puts an address into a register by adrp and add.
static void put_address(struct writer *to, uint32_t number, uint64_t target) {
    uint64_t from = (uint64_t)to->at & ~UINT64_C(4095);
    uint32_t pages = field(to, (int64_t)((target & ~UINT64_C(4095)) - from), 12, 0, 21);
    put(to, 0x90000000 | (pages & 3) << 29 | pages >> 2 << 5 | number);
    put(to, 0x91000000 | (uint32_t)(target & 4095) << 10 | number << 5 | number);
}

static bool is_near(uint64_t function, uint64_t room) {
    int64_t distance = (int64_t)(room - function);
    return distance > -BRANCH_REACH && distance < BRANCH_REACH;
}

static void put_far_branch(struct writer *to, uint32_t number, uint64_t target) {
    put_address(to, number, target);
    put(to, 0xd61f0000 | number << 5); // br
}

// Returns the target of a branch; 0 for other instructions.
static uint64_t branch_target(uint32_t word, uint64_t pc) {
    int64_t words = 0;
    if (BITS(26, 5) == 5) words = zg_a64_signed(word, 0, 26);
    else if (BITS(25, 6) == 0x1a || BITS(24, 8) == 0x54) words = zg_a64_signed(word, 5, 19);
    else if (BITS(25, 6) == 0x1b) words = zg_a64_signed(word, 5, 14);
    else return 0;
    return pc + (uint64_t)(words * 4);
}

// Returns true if the instruction is position-independent: arithmetic of registers and vectors, loads and stores of the
// stack. Instructions that access memory through an argument are not moved: they may fault, and the pc must then be in
// the function.
static bool is_movable(uint32_t word) {
    uint32_t group = BITS(25, 4);
    if ((group & 14) == 8) return BITS(24, 5) != 0x10;
    if ((group & 7) == 5 || (group & 7) == 7) return true;
    if ((group & 5) == 4) {
        struct zg_a64 it = zg_a64_decode(word);
        return (it.kind == zg_a64_load || it.kind == zg_a64_store) && it.base == SP && it.index == ZG_A64_NONE;
    }
    // Hints, and a read of the thread pointer.
    return (word & 0xfffff01f) == 0xd503201f || (word & 0xffffffe0) == 0xd53bd040;
}

// Writes the instruction `word`, which is at `pc`, so that it has the same effect at its new address. Clears
// is_possible if it cannot be moved.
static void move(struct writer *to, uint32_t word, uint64_t pc) {
    uint64_t target = branch_target(word, pc);
    if (is_movable(word)) {
        put(to, word);
    } else if (target && BITS(26, 6) == 5) { // b
        put_branch(to, target);
    } else if (target && !(BITS(26, 5) == 5)) { // conditional branch: retargeted to an inserted b
        bool is_of_bit = BITS(25, 6) == 0x1b;
        put(to, (word & ~(is_of_bit ? 0x7ffe0u : 0xffffe0u)) | 2 << 5);
        put_branch(to, (uint64_t)to->at + 8);
        put_branch(to, target);
    } else if (BITS(24, 5) == 0x10 && BITS(0, 5) != SP) { // adr, adrp
        int64_t distance = zg_a64_signed(word, 5, 19) * 4 + (int64_t)BITS(29, 2);
        target = BITS(31, 1) ? (pc & ~UINT64_C(4095)) + (uint64_t)(distance * 4096) : pc + (uint64_t)distance;
        put_address(to, BITS(0, 5), target);
    } else if ((word & 0xbf000000) == 0x18000000 && BITS(0, 5) != SP) { // ldr x and ldr w of a literal
        put_address(to, BITS(0, 5), pc + (uint64_t)(zg_a64_signed(word, 5, 19) * 4));
        put(to, (BITS(30, 1) ? 0xf9400000 : 0xb9400000) | BITS(0, 5) << 5 | BITS(0, 5));
    } else {
        to->is_possible = false;
    }
}

// Returns true if the function branches into the middle of the moved instructions.
static bool has_branch_to(const uint8_t *code, uint32_t count, uint64_t function, uint64_t end) {
    for (uint32_t at = 0; at + WORD <= count; at += WORD) {
        uint64_t target = branch_target(word_at(code, at), function + at);
        if (target > function && target < end) return true;
    }
    return false;
}

// Saves or restores registers in pairs, in the part of the frame that an observer does not read.
static void put_pairs(struct writer *to, uint32_t word) {
    for (uint32_t i = 0; i < SAVED; i += 2) put(to, word | (SAVED_AT / 8 + i) << 15 | (i + 1) << 10 | SP << 5 | i);
}

uint32_t zg_arch_detour_write(uint8_t *room, uint64_t function, const uint8_t *code, uint32_t count,
                              zg_arch_observer *observe, uint32_t number) {
    // The frame has the layout of ZG_ARCH_FRAME: frame record, stack pointer of the caller, address of the record. x0
    // to x18 follow.
    static const uint32_t enter[] = {
        SUB_SP,
        0xa9007bfd, // stp x29, x30, [sp]
        0x910303fd, // add x29, sp, #192
        0xf9000bfd, // str x29, [sp, #16]
        0x910003fd, // mov x29, sp
        0xf9000ffd, // str x29, [sp, #24]
    };
    struct writer to = {room, true};
    if (count < 5 * WORD || number > UINT16_MAX) return 0;
    bool keeps_pad = is_pad(word_at(code, 0));
    bool near = is_near(function, (uint64_t)room);
    uint32_t moved = (keeps_pad ? WORD : 0) + (near ? 1 : FAR_WORDS) * WORD;
    if (has_branch_to(code, count < LOOKED_AT ? count : LOOKED_AT, function, function + moved)) return 0;
    // The branch back is indirect, and its target is no landing pad. Such a branch may only enter the patched page,
    // which has lost its BTI protection, so the target must not be the start of the next page.
    if (!near && !((function + moved) & 4095)) return 0;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(enter); i++) put(&to, enter[i]);
    put_pairs(&to, 0xa9000000);
    put(&to, 0xf9000000 | (SAVED_AT / 8 + SAVED) << 10 | SP << 5 | SAVED); // str x18
    put(&to, 0x52800001 | number << 5);                                    // mov w1, number
    put(&to, 0x910003e2);                                                  // mov x2, sp
    uint8_t *load = to.at;
    put(&to, 0);          // ldr x16, the observer's address
    put(&to, 0xd63f0200); // blr x16
    put_pairs(&to, 0xa9400000);
    put(&to, 0xf9400000 | (SAVED_AT / 8 + SAVED) << 10 | SP << 5 | SAVED);
    put(&to, 0xa9407bfd); // ldp x29, x30, [sp]
    put(&to, ADD_SP);
    for (uint32_t at = 0; at < moved; at += WORD) {
        uint32_t word = word_at(code, at);
        if (is_bti(word)) continue;
        if (!near && (BITS(0, 5) == SCRATCH_BACK || BITS(10, 5) == SCRATCH_BACK)) return 0;
        move(&to, word, function + at);
    }
    if (near) put_branch(&to, function + moved);
    else put_far_branch(&to, SCRATCH_BACK, function + moved);
    if ((uint64_t)to.at & 4) put(&to, 0);
    uint32_t literal = 0x58000010 | field(&to, to.at - load, 2, 5, 19);
    __builtin_memcpy(load, &literal, sizeof literal);
    __builtin_memcpy(to.at, &observe, sizeof observe);
    to.at += sizeof observe;
    return to.is_possible ? (uint32_t)(to.at - room) : 0;
}

uint32_t zg_arch_detour_jump(uint8_t *code, uint64_t function, uint64_t room) {
    uint32_t first = word_at(code, 0);
    bool keeps_pad = is_pad(first);
    struct writer to = {code, true};
    // An instruction that signs the return address is a landing pad, too. Since that instruction moves, a plain landing
    // pad takes its place.
    if (keeps_pad) put(&to, is_bti(first) ? first : BTI_C);
    uint64_t from = function + (uint64_t)(to.at - code);
    if (is_near(function, room)) {
        put(&to, 0x14000000 | field(&to, (int64_t)(room - from), 2, 0, 26));
    } else {
        int64_t pages = (int64_t)((room & ~UINT64_C(4095)) - (from & ~UINT64_C(4095)));
        uint32_t number = field(&to, pages, 12, 0, 21);
        put(&to, 0x90000000 | (number & 3) << 29 | number >> 2 << 5 | SCRATCH);
        put(&to, 0x91000000 | (uint32_t)(room & 4095) << 10 | SCRATCH << 5 | SCRATCH);
        put(&to, 0xd61f0000 | SCRATCH << 5);
    }
    return to.is_possible ? (uint32_t)(to.at - code) : 0;
}

#endif
