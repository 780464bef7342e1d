// Detours on x86-64: inline hooks of functions in other images. A jump to the detour replaces the function's first
// instructions, which run in the detour after a call of the observer. A function is left unchanged if its first
// instructions cannot be moved, or if it may branch into the middle of them.
// Start-up; pure, no lock.

#if defined(__x86_64__)

#include "platform/arch.h"
#include "platform/arch_x86_64_instructions.h"

enum { JUMP = 5, LOOKED_AT = 192, MOVED_MOST = 32, RSP = 4, RBP = 5 };

struct moved {
    uint32_t bytes;        // length of the instruction; 0 if it cannot be moved
    uint32_t displacement; // offset of the RIP-relative displacement; 0 if absent
};

// Accepts the kinds of instructions with which functions begin. Rejects prefixes other than 66 and F3, and 16-bit
// immediates.
static bool may_be_moved(const struct zg_x64 *it) {
    if (it->prefixes & ~(ZG_X64_OPERAND_SIZE | ZG_X64_REPEAT) || it->length - it->operand_end == 2) return false;
    switch (it->operation) {
    case zg_x64_nothing: // endbr64, nop
    case zg_x64_calculate:
    case zg_x64_test:
    case zg_x64_move:
    case zg_x64_move_zero:
    case zg_x64_move_sign:
    case zg_x64_move_if:
    case zg_x64_address: return true;
    case zg_x64_push:
    case zg_x64_pop: return !it->immediate;
    case zg_x64_shift: return it->from == zg_x64_imm;
    }
    return false;
}

// Decodes an instruction that is to be moved. Rejects instructions that access memory through an argument: they may
// fault, and the pc must then be in the function.
static struct moved look_at(const uint8_t *code) {
    struct zg_x64 it = zg_x64_read(code, ZG_X64_LONGEST);
    bool only_address = it.operation == zg_x64_address || it.operation == zg_x64_nothing;
    bool is_of_stack = it.index == ZG_X64_NO_REGISTER && (it.base == RSP || it.base == RBP);
    if (!may_be_moved(&it) || (it.in_memory && !it.from_pc && !is_of_stack && !only_address))
        return (struct moved){0, 0};
    return (struct moved){(uint32_t)it.length, it.from_pc ? (uint32_t)it.operand_end - 4 : 0};
}

// Returns true if the function may branch to a moved instruction. Bit n of `starts` is set if such an instruction,
// other than the first, begins at byte n. Does not decode the code: takes any bytes that look like a branch for a
// branch.
static bool has_branch_to(const uint8_t *code, uint32_t count, uint64_t starts) {
    for (uint32_t at = 0; at + 6 <= count; at++) {
        int64_t target = -1;
        int32_t distance;
        if ((code[at] & 0xf0) == 0x70 || code[at] == 0xeb) {
            target = (int64_t)at + 2 + (int8_t)code[at + 1];
        } else if (code[at] == 0xe9) {
            __builtin_memcpy(&distance, code + at + 1, sizeof distance);
            target = (int64_t)at + 5 + distance;
        } else if (code[at] == 0x0f && (code[at + 1] & 0xf0) == 0x80) {
            __builtin_memcpy(&distance, code + at + 2, sizeof distance);
            target = (int64_t)at + 6 + distance;
        }
        if (target > 0 && target < 64 && starts >> target & 1) return true;
    }
    return false;
}

static uint8_t *put(uint8_t *to, const void *bytes, uint64_t count) {
    __builtin_memcpy(to, bytes, count);
    return to + count;
}

static bool distance_fits(int64_t distance) { return distance == (int32_t)distance; }

uint32_t zg_arch_detour_write(uint8_t *room, uint64_t function, const uint8_t *code, uint32_t count,
                              zg_arch_observer *observe, uint32_t number) {
    static const uint8_t save[] = {
        0x55, 0x48, 0x89, 0xe5,                   // push rbp; mov rbp, rsp: the frame that the observer gets
        0x50, 0x51, 0x52, 0x56, 0x57,             // push rax rcx rdx rsi rdi
        0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, // push r8 to r11
        0x53, 0x48, 0x83, 0xec, 0x08,             // sub rsp, 8
        0x48, 0x89, 0xea, 0xbe,                   // mov rdx, rbp; mov esi, number
    };
    static const uint8_t call[] = {0x48, 0xb8}; // movabs rax, observe
    static const uint8_t restore[] = {
        0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08,             // call rax; add rsp, 8
        0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, // pop r11 to r8
        0x5f, 0x5e, 0x5a, 0x59, 0x58, 0x5d,             // pop rdi rsi rdx rcx rax rbp
    };
    uint32_t moved = 0;
    uint64_t starts = 0;
    uint8_t *to = put(room, save, sizeof save);
    to = put(to, &number, sizeof number);
    to = put(to, call, sizeof call);
    to = put(to, &observe, sizeof observe);
    to = put(to, restore, sizeof restore);
    while (moved < JUMP) {
        if (moved + 16 > count) return 0;
        if (moved) starts |= UINT64_C(1) << moved;
        struct moved it = look_at(code + moved);
        if (!it.bytes || moved + it.bytes > MOVED_MOST) return 0;
        put(to, code + moved, it.bytes);
        if (it.displacement) {
            int32_t displacement;
            __builtin_memcpy(&displacement, code + moved + it.displacement, sizeof displacement);
            int64_t distance = displacement + ((int64_t)(function + moved) - (int64_t)(uint64_t)to);
            if (!distance_fits(distance)) return 0;
            displacement = (int32_t)distance;
            __builtin_memcpy(to + it.displacement, &displacement, sizeof displacement);
        }
        to += it.bytes;
        moved += it.bytes;
    }
    if (has_branch_to(code, count < LOOKED_AT ? count : LOOKED_AT, starts)) return 0;
    int64_t back = (int64_t)(function + moved) - (int64_t)(uint64_t)(to + JUMP);
    if (!distance_fits(back)) return 0;
    int32_t distance = (int32_t)back;
    *to++ = 0xe9;
    to = put(to, &distance, sizeof distance);
    return (uint32_t)(to - room);
}

uint32_t zg_arch_detour_jump(uint8_t *code, uint64_t function, uint64_t room) {
    int64_t there = (int64_t)room - (int64_t)(function + JUMP);
    if (!distance_fits(there)) return 0;
    int32_t distance = (int32_t)there;
    code[0] = 0xe9;
    put(code + 1, &distance, sizeof distance);
    return JUMP;
}

#endif
