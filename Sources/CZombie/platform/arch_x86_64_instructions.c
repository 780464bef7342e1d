// Decodes x86-64 instructions by a table that is laid out as appendix A of volume 2 of Intel's manual (SDM).
// Signal context; pure, no lock.

#if defined(__x86_64__)

#include "platform/arch_x86_64_instructions.h"

// Encoding of a row's instructions. REX.W and the prefix 66 set the operand size, unless the operands are bytes.
enum {
    MODRM = 1,
    BYTE = 2,      // byte operands
    EVEN_BYTE = 4, // byte operands if the opcode is even
    IMM_8 = 8,
    IMM_16 = 16,
    IMM_32 = 32,
    IMM_OPERAND = 64, // immediate of the operand size, 4 bytes at most
    IMM_FULL = 128,   // immediate of the operand size
};

struct row {
    uint8_t operation, to, from, form;
    // Bit n applies if the reg field of ModRM is n; the field extends the opcode in the groups of tables.
    // If neither bit is set, the instruction loads.
    uint8_t stores, jumps;
};

#define REG(n) (1u << (n))
#define ALL 0xffu
#define ALL_BUT(n) (uint8_t) ~REG(n)

// clang-format off
#define ROW(operation, to, from, form, stores, jumps) \
    {zg_x64_##operation, zg_x64_##to, zg_x64_##from, form, stores, jumps}
#define ARITHMETIC(first, stores) \
    [first     ... first + 1] = ROW(calculate, rm, reg, MODRM | EVEN_BYTE, stores, 0), \
    [first + 2 ... first + 3] = ROW(calculate, reg, rm, MODRM | EVEN_BYTE, 0, 0), \
    [first + 4 ... first + 5] = ROW(calculate, ax, imm, EVEN_BYTE | IMM_OPERAND, 0, 0)
#define P66 ZG_X64_OPERAND_SIZE
#define PF3 ZG_X64_REPEAT
#define PF2 ZG_X64_REPEAT_NOT

// An opcode without a row is not emulated. If it accesses memory, it is taken for a load.
static const struct row map_1[256] = {
    // Table A-2: one-byte opcodes.
    ARITHMETIC(0x00, ALL), ARITHMETIC(0x08, ALL), ARITHMETIC(0x10, ALL), ARITHMETIC(0x18, ALL), // add or adc sbb
    ARITHMETIC(0x20, ALL), ARITHMETIC(0x28, ALL), ARITHMETIC(0x30, ALL), ARITHMETIC(0x38, 0),   // and sub xor cmp
    [0x50 ... 0x57] = ROW(push, none, low, 0, 0, 0),
    [0x58 ... 0x5f] = ROW(pop, low, none, 0, 0, 0),
    [0x63] = ROW(move_sign, reg, rm, MODRM, 0, 0),                                // movsxd
    [0x68] = ROW(push, none, imm, IMM_32, 0, 0),
    [0x69] = ROW(multiply, reg, imm, MODRM | IMM_OPERAND, 0, 0),                  // imul
    [0x6a] = ROW(push, none, imm, IMM_8, 0, 0),
    [0x6b] = ROW(multiply, reg, imm, MODRM | IMM_8, 0, 0),
    [0x6c ... 0x6d] = ROW(other, none, none, 0, ALL, 0),                          // ins
    [0x70 ... 0x7f] = ROW(jump_if, none, imm, IMM_8, 0, 0),
    [0x80] = ROW(calculate, rm, imm, MODRM | BYTE | IMM_8, ALL_BUT(7), 0),        // group 1
    [0x81] = ROW(calculate, rm, imm, MODRM | IMM_OPERAND, ALL_BUT(7), 0),
    [0x82] = ROW(other, none, none, MODRM, ALL_BUT(7), 0),
    [0x83] = ROW(calculate, rm, imm, MODRM | IMM_8, ALL_BUT(7), 0),
    [0x84 ... 0x85] = ROW(test, rm, reg, MODRM | EVEN_BYTE, 0, 0),
    [0x86 ... 0x87] = ROW(exchange, rm, reg, MODRM | EVEN_BYTE, ALL, 0),
    [0x88 ... 0x89] = ROW(move, rm, reg, MODRM | EVEN_BYTE, ALL, 0),
    [0x8a ... 0x8b] = ROW(move, reg, rm, MODRM | EVEN_BYTE, 0, 0),
    [0x8c] = ROW(other, none, none, MODRM, ALL, 0),                               // mov r/m,segment
    [0x8d] = ROW(address, reg, none, MODRM, 0, 0),                                // lea
    [0x8e] = ROW(other, none, none, MODRM, 0, 0),                                 // mov segment,r/m
    [0x8f] = ROW(other, none, none, MODRM, ALL, 0),                               // pop r/m
    [0x90] = ROW(nothing, low, none, 0, 0, 0),                                    // nop, pause
    [0x98] = ROW(widen, ax, ax, 0, 0, 0),                                         // cbw cwde cdqe
    [0x99] = ROW(spread, none, ax, 0, 0, 0),                                      // cwd cdq cqo
    [0xa2 ... 0xa5] = ROW(other, none, none, 0, ALL, 0),                          // mov offset,al; movs
    [0xa8 ... 0xa9] = ROW(test, ax, imm, EVEN_BYTE | IMM_OPERAND, 0, 0),
    [0xaa ... 0xab] = ROW(other, none, none, 0, ALL, 0),                          // stos
    [0xb0 ... 0xb7] = ROW(move, low, imm, BYTE | IMM_8, 0, 0),
    [0xb8 ... 0xbf] = ROW(move, low, imm, IMM_FULL, 0, 0),
    [0xc0 ... 0xc1] = ROW(shift, rm, imm, MODRM | EVEN_BYTE | IMM_8, ALL, 0),     // group 2
    [0xc2] = ROW(return, none, imm, IMM_16, 0, ALL),
    [0xc3] = ROW(return, none, none, 0, 0, ALL),
    [0xc6 ... 0xc7] = ROW(move, rm, imm, MODRM | EVEN_BYTE | IMM_OPERAND, ALL, 0), // group 11
    [0xc9] = ROW(leave, none, none, 0, 0, 0),
    [0xcc] = ROW(trap, none, none, 0, 0, 0),                                      // int3
    [0xd0 ... 0xd1] = ROW(shift, rm, one, MODRM | EVEN_BYTE, ALL, 0),             // group 2
    [0xd2 ... 0xd3] = ROW(shift, rm, cl, MODRM | EVEN_BYTE, ALL, 0),

    // Tables: x87 with memory.
    [0xd8] = ROW(other, none, none, MODRM, 0, 0),
    [0xd9] = ROW(other, none, none, MODRM, REG(2) | REG(3) | REG(6) | REG(7), 0), // fst fstp fnstenv fnstcw
    [0xda] = ROW(other, none, none, MODRM, 0, 0),
    [0xdb] = ROW(other, none, none, MODRM, REG(1) | REG(2) | REG(3) | REG(7), 0), // fisttp fist fistp fstp
    [0xdc] = ROW(other, none, none, MODRM, 0, 0),
    [0xdd] = ROW(other, none, none, MODRM, REG(1) | REG(2) | REG(3) | REG(6) | REG(7), 0), // fst fnsave
    [0xde] = ROW(other, none, none, MODRM, 0, 0),
    [0xdf] = ROW(other, none, none, MODRM, REG(1) | REG(2) | REG(3) | REG(6) | REG(7), 0), // fist fbstp

    [0xe8] = ROW(call, none, imm, IMM_32, 0, 0),
    [0xe9] = ROW(jump, none, imm, IMM_32, 0, 0),
    [0xeb] = ROW(jump, none, imm, IMM_8, 0, 0),
    [0xf6 ... 0xf7] = ROW(unary, rm, imm, MODRM | EVEN_BYTE | IMM_OPERAND, REG(2) | REG(3), 0), // group 3
    [0xfe] = ROW(count_or_call, rm, none, MODRM | BYTE, ALL, 0),                  // group 4
    [0xff] = ROW(count_or_call, rm, none, MODRM, REG(0) | REG(1), REG(2) | REG(4)), // group 5
};

static const struct row map_0f[256] = {
    // Table A-3: two-byte opcodes. System instructions and similar ones have no row.
    [0x0b] = ROW(trap, none, none, 0, 0, 0),                                      // ud2
    [0x0d] = ROW(nothing, none, none, MODRM, 0, 0),                               // prefetchw
    [0x10] = ROW(vector_load, none, none, MODRM, 0, 0),                           // movups movss movupd movsd
    [0x11] = ROW(vector_store, none, none, MODRM, ALL, 0),
    [0x12] = ROW(vector_other, none, none, MODRM, 0, 0),                          // movlps
    [0x13] = ROW(vector_store_unknown, none, none, MODRM, ALL, 0),
    [0x14 ... 0x16] = ROW(vector_other, none, none, MODRM, 0, 0),                 // unpcklps unpckhps movhps
    [0x17] = ROW(vector_store_unknown, none, none, MODRM, ALL, 0),                // movhps
    [0x18 ... 0x1f] = ROW(nothing, none, none, MODRM, 0, 0),                      // prefetch, endbr64, nop
    [0x28] = ROW(vector_load, none, none, MODRM, 0, 0),                           // movaps
    [0x29] = ROW(vector_store, none, none, MODRM, ALL, 0),
    [0x2a] = ROW(vector_other, none, none, MODRM, 0, 0),                          // cvtsi2sd
    [0x2b] = ROW(vector_store, none, none, MODRM, ALL, 0),                        // movntps
    [0x2c ... 0x2d] = ROW(vector_summary, none, none, MODRM, 0, 0),               // cvttsd2si cvtsd2si
    [0x2e ... 0x2f] = ROW(vector_compare, none, none, MODRM, 0, 0),               // ucomisd comisd
    [0x31] = ROW(read_time, none, none, 0, 0, 0),                                 // rdtsc
    [0x40 ... 0x4f] = ROW(move_if, reg, rm, MODRM, 0, 0),                         // cmov
    [0x50] = ROW(vector_summary, none, none, MODRM, 0, 0),                        // movmskps
    [0x51 ... 0x56] = ROW(vector_other, none, none, MODRM, 0, 0),                 // vector arithmetic
    [0x57] = ROW(vector_xor, none, none, MODRM, 0, 0),                            // xorps
    [0x58 ... 0x6d] = ROW(vector_other, none, none, MODRM, 0, 0),
    [0x6e ... 0x6f] = ROW(other, none, none, MODRM, 0, 0),                        // MMX; with prefixes: other_rows
    [0x70] = ROW(vector_other, none, none, MODRM | IMM_8, 0, 0),                  // pshufd
    [0x71 ... 0x73] = ROW(vector_shift, none, none, MODRM | IMM_8, 0, 0),         // groups 12 to 14
    [0x74 ... 0x76] = ROW(vector_other, none, none, MODRM, 0, 0),
    [0x7c ... 0x7d] = ROW(vector_other, none, none, MODRM, 0, 0),                 // haddps hsubps
    [0x7e ... 0x7f] = ROW(other, none, none, MODRM, ALL, 0),                      // MMX; with prefixes: other_rows
    [0x80 ... 0x8f] = ROW(jump_if, none, imm, IMM_32, 0, 0),
    [0x90 ... 0x9f] = ROW(set_if, rm, none, MODRM | BYTE, ALL, 0),                // setcc
    [0xa3] = ROW(test_bit, rm, reg, MODRM, 0, 0),                                 // bt
    [0xa4] = ROW(shift_pair, rm, imm, MODRM | IMM_8, ALL, 0),                     // shld
    [0xa5] = ROW(shift_pair, rm, cl, MODRM, ALL, 0),
    [0xab] = ROW(test_bit, rm, reg, MODRM, ALL, 0),                               // bts
    [0xac] = ROW(shift_pair, rm, imm, MODRM | IMM_8, ALL, 0),                     // shrd
    [0xad] = ROW(shift_pair, rm, cl, MODRM, ALL, 0),
    [0xae] = ROW(other, none, none, MODRM, REG(0) | REG(3) | REG(4) | REG(6), 0), // group 15
    [0xaf] = ROW(multiply, reg, reg, MODRM, 0, 0),                                // imul
    [0xb0 ... 0xb1] = ROW(compare_exchange, rm, reg, MODRM | EVEN_BYTE, ALL, 0),
    [0xb2] = ROW(other, none, none, MODRM, 0, 0),                                 // lss
    [0xb3] = ROW(test_bit, rm, reg, MODRM, ALL, 0),                               // btr
    [0xb4 ... 0xb5] = ROW(other, none, none, MODRM, 0, 0),                        // lfs lgs
    [0xb6 ... 0xb7] = ROW(move_zero, reg, rm, MODRM, 0, 0),                       // movzx
    [0xb8] = ROW(scan_bits, reg, rm, MODRM, 0, 0),                                // popcnt
    [0xb9] = ROW(other, none, none, MODRM, 0, 0),                                 // ud1
    [0xba] = ROW(test_bit, rm, imm, MODRM | IMM_8, REG(5) | REG(6) | REG(7), 0),  // group 8: bt, bts btr btc
    [0xbb] = ROW(test_bit, rm, reg, MODRM, ALL, 0),                               // btc
    [0xbc ... 0xbd] = ROW(scan_bits, reg, rm, MODRM, 0, 0),                       // bsf bsr tzcnt lzcnt
    [0xbe ... 0xbf] = ROW(move_sign, reg, rm, MODRM, 0, 0),                       // movsx
    [0xc0 ... 0xc1] = ROW(exchange_add, rm, reg, MODRM | EVEN_BYTE, ALL, 0),      // xadd
    [0xc2] = ROW(vector_other, none, none, MODRM | IMM_8, 0, 0),                  // cmpps
    [0xc3] = ROW(move, rm, reg, MODRM, ALL, 0),                                   // movnti
    [0xc4] = ROW(vector_other, none, none, MODRM | IMM_8, 0, 0),                  // pinsrw
    [0xc5] = ROW(vector_summary, none, none, MODRM | IMM_8, 0, 0),                // pextrw
    [0xc6] = ROW(vector_other, none, none, MODRM | IMM_8, 0, 0),                  // shufps
    [0xc7] = ROW(compare_exchange_pair, rm, none, MODRM, REG(1) | REG(4), 0),     // group 9: cmpxchg16b
    [0xc8 ... 0xcf] = ROW(swap_bytes, low, none, 0, 0, 0),                        // bswap
    [0xd0 ... 0xd5] = ROW(vector_other, none, none, MODRM, 0, 0),                 // vector arithmetic
    [0xd6] = ROW(other, none, none, MODRM, ALL, 0),
    [0xd7] = ROW(vector_summary, none, none, MODRM, 0, 0),                        // pmovmskb
    [0xd8 ... 0xe6] = ROW(vector_other, none, none, MODRM, 0, 0),
    [0xe7] = ROW(other, none, none, MODRM, ALL, 0),                               // movntq
    [0xe8 ... 0xf6] = ROW(vector_other, none, none, MODRM, 0, 0),
    [0xf7] = ROW(vector_other, none, none, MODRM, ALL, 0),                        // maskmovq maskmovdqu
    [0xf8 ... 0xff] = ROW(vector_other, none, none, MODRM, 0, 0),
};

// Rows for the other opcode maps, and for opcodes to which a prefix gives another meaning. A row covers the opcodes
// `first` to `last`; the first match applies.
static const struct {
    uint8_t map, first, last, prefix;
    struct row row;
} other_rows[] = {
    {zg_x64_map_0f, 0x6c, 0x6c, P66, ROW(vector_unpack, none, none, MODRM, 0, 0)},    // punpcklqdq
    {zg_x64_map_0f, 0x6e, 0x6e, P66, ROW(vector_from_register, none, none, MODRM, 0, 0)}, // movd movq
    {zg_x64_map_0f, 0x6f, 0x6f, P66, ROW(vector_load, none, none, MODRM, 0, 0)},      // movdqa movdqu
    {zg_x64_map_0f, 0x6f, 0x6f, PF3, ROW(vector_load, none, none, MODRM, 0, 0)},
    {zg_x64_map_0f, 0x7e, 0x7e, PF3, ROW(vector_half, none, none, MODRM, 0, 0)},      // movq
    {zg_x64_map_0f, 0x7e, 0x7e, P66, ROW(vector_to_register, none, none, MODRM, ALL, 0)}, // movd movq
    {zg_x64_map_0f, 0x7f, 0x7f, P66, ROW(vector_store, none, none, MODRM, ALL, 0)},   // movdqa movdqu
    {zg_x64_map_0f, 0x7f, 0x7f, PF3, ROW(vector_store, none, none, MODRM, ALL, 0)},
    {zg_x64_map_0f, 0xae, 0xae, P66, ROW(other, none, none, MODRM, 0, 0)},            // group 15: clwb clflushopt
    {zg_x64_map_0f, 0xae, 0xae, PF3, ROW(other, none, none, MODRM, 0, 0)},            // ptwrite
    {zg_x64_map_0f, 0xd6, 0xd6, P66, ROW(vector_store_half, none, none, MODRM, ALL, 0)}, // movq
    {zg_x64_map_0f, 0xe7, 0xe7, P66, ROW(vector_store, none, none, MODRM, ALL, 0)},   // movntdq
    {zg_x64_map_0f, 0xef, 0xef, P66, ROW(vector_xor, none, none, MODRM, 0, 0)},       // pxor

    // Table A-4: 0F 38.
    {zg_x64_map_0f38, 0x00, 0xef, 0, ROW(vector_other_whole, none, none, MODRM, 0, 0)},
    {zg_x64_map_0f38, 0xf0, 0xf0, 0, ROW(other, none, none, MODRM, 0, 0)},
    {zg_x64_map_0f38, 0xf1, 0xf1, PF2, ROW(other, none, none, MODRM, 0, 0)},          // crc32
    {zg_x64_map_0f38, 0xf1, 0xf1, 0, ROW(other, none, none, MODRM, ALL, 0)},          // movbe
    {zg_x64_map_0f38, 0xf2, 0xf8, 0, ROW(other, none, none, MODRM, 0, 0)},
    {zg_x64_map_0f38, 0xf9, 0xf9, 0, ROW(other, none, none, MODRM, ALL, 0)},          // movdiri
    {zg_x64_map_0f38, 0xfa, 0xff, 0, ROW(other, none, none, MODRM, 0, 0)},

    // Table A-5: 0F 3A.
    {zg_x64_map_0f3a, 0x00, 0x13, 0, ROW(vector_other_whole, none, none, MODRM | IMM_8, 0, 0)},
    {zg_x64_map_0f3a, 0x14, 0x17, 0, ROW(other, none, none, MODRM | IMM_8, ALL, 0)},  // pextr extractps
    {zg_x64_map_0f3a, 0x18, 0xef, 0, ROW(vector_other_whole, none, none, MODRM | IMM_8, 0, 0)},
    {zg_x64_map_0f3a, 0xf0, 0xff, 0, ROW(other, none, none, MODRM | IMM_8, 0, 0)},

    // All instructions with VEX and EVEX have a ModRM byte, except vzeroupper. The table omits their operations.
    {zg_x64_map_vex, 0x00, 0xff, 0, ROW(other, none, none, MODRM, 0, 0)},
};
// clang-format on

// `bytes` has zeros after the code, and space for the longest prefixes, opcode, operand and immediate together.
struct reader {
    uint8_t bytes[40];
    int count, at;
};

static uint8_t prefix_of(uint8_t byte) {
    switch (byte) {
    case 0x66: return ZG_X64_OPERAND_SIZE;
    case 0x67: return ZG_X64_ADDRESS_SIZE;
    case 0xf3: return ZG_X64_REPEAT;
    case 0xf2: return ZG_X64_REPEAT_NOT;
    case 0x64: return ZG_X64_FS;
    case 0x65: return ZG_X64_GS;
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0xf0: return ZG_X64_OTHER_PREFIX;
    default: return 0;
    }
}

// Reads legacy prefixes, then REX, VEX or EVEX (sections 2.1 to 2.3 and 2.7). VEX and EVEX hold the REX bits inverted.
static void read_opcode(struct reader *from, struct zg_x64 *it) {
    for (uint8_t prefix; from->at < from->count && (prefix = prefix_of(from->bytes[from->at])); from->at++)
        it->prefixes |= prefix;
    if ((from->bytes[from->at] & 0xf0) == 0x40) it->rex = from->bytes[from->at++];
    const uint8_t *bytes = from->bytes + from->at;
    int length = 1;
    if (bytes[0] == 0x0f) {
        it->map = bytes[1] == 0x38 ? zg_x64_map_0f38 : bytes[1] == 0x3a ? zg_x64_map_0f3a : zg_x64_map_0f;
        length = it->map == zg_x64_map_0f ? 2 : 3;
    } else if (bytes[0] == 0xc5 || bytes[0] == 0xc4 || bytes[0] == 0x62) {
        it->map = zg_x64_map_vex;
        length = bytes[0] == 0xc5 ? 3 : bytes[0] == 0xc4 ? 4 : 5;
        if (length > 3) it->rex = (uint8_t)~bytes[1] >> 5;
    }
    it->opcode = bytes[length - 1];
    it->opcode_end = from->at += length;
}

static const struct row *find_row(const struct zg_x64 *it) {
    if (it->map == zg_x64_map_1) return &map_1[it->opcode];
    if (it->map == zg_x64_map_0f && !(it->prefixes & (P66 | PF3 | PF2))) return &map_0f[it->opcode];
    for (size_t i = 0; i < ZG_ARRAY_COUNT(other_rows); i++)
        if (other_rows[i].map == it->map && other_rows[i].first <= it->opcode && it->opcode <= other_rows[i].last &&
            (other_rows[i].prefix & it->prefixes) == other_rows[i].prefix)
            return &other_rows[i].row;
    return &map_0f[it->opcode]; // an 0F opcode to which its prefix gives no other meaning
}

static int64_t read_signed(struct reader *from, int bytes) {
    if (!bytes) return 0;
    uint64_t value;
    int spare = 64 - 8 * bytes;
    __builtin_memcpy(&value, from->bytes + from->at, sizeof value);
    from->at += bytes;
    return (int64_t)(value << spare) >> spare;
}

// Reads ModRM, SIB and displacement (section 2.1.5).
static void read_operand(struct reader *from, struct zg_x64 *it) {
    uint8_t modrm = from->bytes[from->at++], mod = modrm >> 6, base = modrm & 7;
    int displacement_bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    it->reg = (uint8_t)((modrm >> 3 & 7) | (it->rex & ZG_X64_REX_R) << 1);
    it->rm = (uint8_t)(base | (it->rex & ZG_X64_REX_B) << 3);
    it->in_memory = mod != 3;
    if (!it->in_memory) return;
    if (base == 4) {
        uint8_t sib = from->bytes[from->at++], index = (uint8_t)((sib >> 3 & 7) | (it->rex & ZG_X64_REX_X) << 2);
        base = sib & 7;
        if (index != 4) it->index = index, it->scale = sib >> 6;
    } else if (mod == 0 && base == 5) {
        it->from_pc = true;
    }
    if (mod == 0 && base == 5) displacement_bytes = 4;
    else it->base = (uint8_t)(base | (it->rex & ZG_X64_REX_B) << 3);
    it->displacement = read_signed(from, displacement_bytes);
}

static int immediate_bytes(const struct zg_x64 *it, uint8_t form) {
    if (it->operation == zg_x64_unary && (it->reg & 7) > 1) return 0; // in group 3, only test has an immediate
    if (form & IMM_8) return 1;
    if (form & IMM_16) return 2;
    if (form & IMM_32) return 4;
    if (form & IMM_OPERAND) return it->bytes > 4 ? 4 : it->bytes;
    return form & IMM_FULL ? it->bytes : 0;
}

struct zg_x64 zg_x64_read(const uint8_t *code, int count) {
    struct zg_x64 it = {.base = ZG_X64_NO_REGISTER, .index = ZG_X64_NO_REGISTER};
    // `count` is negative if the code could not be read (a jump to a wild address).
    struct reader from = {.count = count < 0 ? 0 : count <= ZG_X64_LONGEST ? count : ZG_X64_LONGEST + 1};
    __builtin_memcpy(from.bytes, code, (uint64_t)from.count);
    read_opcode(&from, &it);
    const struct row *row = find_row(&it);
    it.operation = row->operation, it.to = row->to, it.from = row->from;
    it.has_modrm = row->form & MODRM;
    it.width = it.rex & ZG_X64_REX_W ? 8 : it.prefixes & ZG_X64_OPERAND_SIZE ? 2 : 4;
    it.bytes = row->form & BYTE || (row->form & EVEN_BYTE && !(it.opcode & 1)) ? 1 : it.width;
    it.low = (uint8_t)((it.opcode & 7) | (it.rex & ZG_X64_REX_B) << 3);
    if (it.has_modrm) read_operand(&from, &it);
    it.stores = row->stores & REG(it.reg & 7), it.jumps = row->jumps & REG(it.reg & 7);
    it.operand_end = from.at;
    it.immediate = read_signed(&from, immediate_bytes(&it, row->form));
    it.length = from.at;
    return it;
}

#endif
