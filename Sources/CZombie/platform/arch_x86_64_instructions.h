// Decodes x86-64 instructions into prefixes, opcode, operands, and the operation that the emulators execute.

#ifndef ZG_ARCH_X86_64_INSTRUCTIONS_H
#define ZG_ARCH_X86_64_INSTRUCTIONS_H

#include "platform/base.h"

enum { ZG_X64_LONGEST = 15, ZG_X64_NO_REGISTER = 255 };

// Bits of `prefixes`, then the bits of `rex`.
enum {
    ZG_X64_OPERAND_SIZE = 1,
    ZG_X64_ADDRESS_SIZE = 2,
    ZG_X64_REPEAT = 4,
    ZG_X64_REPEAT_NOT = 8,
    ZG_X64_FS = 16,
    ZG_X64_GS = 32,
    ZG_X64_OTHER_PREFIX = 64,
    ZG_X64_REX_W = 8,
    ZG_X64_REX_R = 4,
    ZG_X64_REX_X = 2,
    ZG_X64_REX_B = 1,
};

enum zg_x64_map { zg_x64_map_1, zg_x64_map_0f, zg_x64_map_0f38, zg_x64_map_0f3a, zg_x64_map_vex };

// Operation that arch_x86_64_step.c executes for an instruction. One function executes each range of 16 values.
enum zg_x64_operation {
    zg_x64_other, // not emulated
    zg_x64_nothing,
    zg_x64_move,
    zg_x64_move_zero, // movzx
    zg_x64_move_sign, // movsx, movsxd
    zg_x64_move_if,
    zg_x64_set_if,
    zg_x64_exchange,
    zg_x64_address, // lea
    zg_x64_push,
    zg_x64_pop,
    zg_x64_leave,
    zg_x64_widen,  // cbw, cwde, cdqe
    zg_x64_spread, // cwd, cdq, cqo
    zg_x64_swap_bytes,
    zg_x64_read_time,

    zg_x64_calculate = 16, // add or adc sbb and sub xor cmp
    zg_x64_test,
    zg_x64_unary, // group 3: test not neg mul imul div idiv
    zg_x64_shift,
    zg_x64_shift_pair,
    zg_x64_multiply,
    zg_x64_test_bit, // bt bts btr btc
    zg_x64_scan_bits,
    zg_x64_exchange_add,
    zg_x64_compare_exchange,
    zg_x64_compare_exchange_pair,

    zg_x64_jump_if = 32,
    zg_x64_jump,
    zg_x64_call,
    zg_x64_return,
    zg_x64_trap,
    zg_x64_count_or_call, // groups 4 and 5: inc dec call jmp push

    zg_x64_vector_load = 48,
    zg_x64_vector_store,
    zg_x64_vector_store_half,
    zg_x64_vector_store_unknown,
    zg_x64_vector_from_register,
    zg_x64_vector_to_register,
    zg_x64_vector_half, // movq: clears the upper half
    zg_x64_vector_xor,
    zg_x64_vector_unpack, // punpcklqdq
    zg_x64_vector_shift,  // the destination is r/m
    zg_x64_vector_other,  // the destination becomes unknown
    zg_x64_vector_other_whole,
    zg_x64_vector_compare,
    zg_x64_vector_summary, // the destination is a general register
};

enum zg_x64_operand {
    zg_x64_none,
    zg_x64_rm,
    zg_x64_reg,
    zg_x64_low, // the register in the lowest three bits of the opcode
    zg_x64_ax,
    zg_x64_cl,
    zg_x64_imm,
    zg_x64_one,
};

struct zg_x64 {
    uint8_t prefixes, rex, map, opcode;
    uint8_t operation, to, from; // enum zg_x64_operation, enum zg_x64_operand
    // `width` is the operand size that the prefixes set; `bytes` is the operand size, which may also be 1.
    uint8_t bytes, width;
    bool has_modrm, stores, jumps;
    bool in_memory;             // r/m is memory at base + (index << scale) + displacement
    bool from_pc;               // RIP-relative: the base is the end of the instruction
    uint8_t reg, rm, low;       // register numbers; in some groups, the lowest three bits of `reg` extend the opcode
    uint8_t base, index, scale; // ZG_X64_NO_REGISTER if absent
    // Offsets of the end of the opcode and of the displacement. An instruction with fewer bytes of code is truncated.
    int opcode_end, operand_end;
    int length;
    int64_t displacement, immediate;
};

// Decodes `count` bytes at `code`, which may be any bytes; missing bytes are taken for zeros. Pure.
struct zg_x64 zg_x64_read(const uint8_t *code, int count);

#endif
