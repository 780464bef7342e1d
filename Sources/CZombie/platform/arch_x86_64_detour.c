// Detours of x86-64: code that runs before a function of another image. The function's first instructions move behind a
// call of the observer, and a jump replaces them. A function whose instructions cannot be moved, or that may branch
// into the middle of them, is left alone.
// Opcodes and lengths: volume 2 of Intel's manual (SDM), section 2.1 and appendix A.
// Start-up; pure, no lock.

#if defined(__x86_64__)

#include "platform/arch.h"

enum { JUMP = 5, LOOKED_AT = 192, MOVED_MOST = 32, RIP_RELATIVE = 1, OF_STACK = 2 };

struct moved {
    uint32_t bytes;        // length of the instruction; 0: it cannot be moved
    uint32_t displacement; // offset of the instruction's RIP-relative displacement; 0: none
};

// Returns the length of ModRM, SIB, and displacement at `at`. `*kind`: OF_STACK if the operand is relative to rsp or
// rbp, RIP_RELATIVE, or 0 for any other operand. `is_upper`: bit B of REX, which turns rsp and rbp into r12 and r13.
static uint32_t operand_bytes(const uint8_t *at, bool is_upper, int *kind, bool *in_memory) {
    uint8_t mod = at[0] >> 6, base = at[0] & 7;
    *kind = 0;
    *in_memory = mod != 3;
    if (mod == 3) return 1;
    uint32_t bytes = 1 + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
    if (base == 4) {
        if (mod == 0 && (at[1] & 7) == 5) bytes += 4;
        if (at[1] == 0x24 && !is_upper) *kind = OF_STACK;
        return bytes + 1;
    }
    if (base == 5 && mod == 0) {
        *kind = RIP_RELATIVE;
        return bytes + 4;
    }
    if (base == 5 && !is_upper) *kind = OF_STACK;
    return bytes;
}

// Operands that follow an opcode.
struct shape {
    bool is_known;
    bool has_operand;  // a ModRM byte
    bool only_address; // a memory operand is not accessed
    uint32_t immediate;
};

static struct shape one_byte_shape(uint8_t opcode, bool is_wide) {
    if (opcode < 0x40 && (opcode & 7) < 6) { // add, or, and, sub, xor, cmp
        uint32_t low = opcode & 7;
        return (struct shape){true, low < 4, false, low == 4 ? 1 : low == 5 ? 4 : 0};
    }
    if ((opcode & 0xf0) == 0x50) return (struct shape){.is_known = true}; // push, pop
    if (opcode >= 0xb8 && opcode <= 0xbf) return (struct shape){.is_known = true, .immediate = is_wide ? 8 : 4};
    switch (opcode) {
    case 0x90: return (struct shape){.is_known = true}; // nop
    case 0x80:
    case 0x83:
    case 0xc1: return (struct shape){true, true, false, 1};
    case 0x81:
    case 0xc7: return (struct shape){true, true, false, 4};
    case 0x8d: return (struct shape){true, true, true, 0}; // lea
    case 0x63:
    case 0x84:
    case 0x85:
    case 0x88:
    case 0x89:
    case 0x8a:
    case 0x8b: return (struct shape){true, true, false, 0};
    default: return (struct shape){.is_known = false};
    }
}

static struct shape two_byte_shape(uint8_t opcode) {
    switch (opcode) {
    case 0x1e:                                             // endbr64
    case 0x1f: return (struct shape){true, true, true, 0}; // nop
    case 0xb6:                                             // movzx, movsx
    case 0xb7:
    case 0xbe:
    case 0xbf: return (struct shape){true, true, false, 0};
    default: return (struct shape){(opcode & 0xf0) == 0x40, true, false, 0}; // cmov
    }
}

// Decodes an instruction of the kinds with which functions begin. Instructions that read memory behind an argument are
// not moved: they may fault, and the fault must be seen in the function.
static struct moved look_at(const uint8_t *code) {
    const struct moved none = {0, 0};
    const uint8_t *at = code;
    bool is_wide = false, is_half = false, is_upper = false;
    while (*at == 0x66 || *at == 0xf3) is_half |= *at++ == 0x66;
    if ((*at & 0xf0) == 0x40) is_wide = *at & 8, is_upper = *at++ & 1;
    struct shape shape = *at == 0x0f ? two_byte_shape(at[1]) : one_byte_shape(*at, is_wide);
    at += *at == 0x0f ? 2 : 1;
    // With an operand-size prefix the immediate has 2 bytes.
    if (!shape.is_known || (is_half && shape.immediate == 4)) return none;
    struct moved it = none;
    if (shape.has_operand) {
        int kind;
        bool in_memory;
        uint32_t bytes = operand_bytes(at, is_upper, &kind, &in_memory);
        if (in_memory && !kind && !shape.only_address) return none;
        if (kind == RIP_RELATIVE) it.displacement = (uint32_t)(at + 1 - code);
        at += bytes;
    }
    it.bytes = (uint32_t)(at - code) + shape.immediate;
    return it;
}

// Returns true if the function may branch to a moved instruction other than the first. The bytes are not decoded:
// everything that looks like a branch counts.
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
