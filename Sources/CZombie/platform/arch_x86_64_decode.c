// x86-64 instructions, as far as a fault asks for them: what one does to memory, and which registers its operand is counted
// from. Volume 2 of Intel's manual (SDM): the table is laid out as its appendix A.
// Signal context; pure, no lock.

#if defined(__x86_64__)

#include "platform/arch.h"

enum { LONGEST = 15, OPERAND_SIZE = 1, ADDRESS_SIZE = 2, REPEAT = 4, REPEAT_NOT = 8, SEGMENT = 16, OTHER_PREFIX = 32 };

enum map { MAP_1, MAP_0F, MAP_0F38, MAP_0F3A, MAP_VEX };

// Opcodes `first` to `last` of a map; where `prefix` is not 0, only with that prefix. The first row that matches holds.
struct row {
    uint8_t map, first, last, prefix;
    uint8_t has_modrm; // which names a register or memory
    // Bit n: with n in the ModRM byte's reg field, which is part of the opcode in the groups of tables. Where
    // neither is set the instruction loads.
    uint8_t stores, jumps;
};

#define REG(n) (1u << (n))
#define ALL 0xffu
// Rows A-2: op r/m,r stores; op r,r/m loads.
#define ARITHMETIC(first) {MAP_1, first, first + 1, 0, true, ALL, 0}, {MAP_1, first + 2, first + 3, 0, true, 0, 0}

// clang-format off
static const struct row rows[] = {
    // Table A-2: opcodes of one byte.
    ARITHMETIC(0x00), ARITHMETIC(0x08), ARITHMETIC(0x10), ARITHMETIC(0x18), // add or adc sbb
    ARITHMETIC(0x20), ARITHMETIC(0x28), ARITHMETIC(0x30),                   // and sub xor
    {MAP_1, 0x38, 0x3b, 0, true, 0, 0},                                     // cmp
    {MAP_1, 0x63, 0x63, 0, true, 0, 0},                                     // movsxd
    {MAP_1, 0x69, 0x69, 0, true, 0, 0},                                     // imul
    {MAP_1, 0x6b, 0x6b, 0, true, 0, 0},
    {MAP_1, 0x6c, 0x6d, 0, false, ALL, 0},                                  // ins
    {MAP_1, 0x80, 0x83, 0, true, (uint8_t)~REG(7), 0},                      // group 1: add or adc sbb and sub xor, cmp
    {MAP_1, 0x84, 0x85, 0, true, 0, 0},                                     // test
    {MAP_1, 0x86, 0x89, 0, true, ALL, 0},                                   // xchg, mov r/m,r
    {MAP_1, 0x8a, 0x8b, 0, true, 0, 0},                                     // mov r,r/m
    {MAP_1, 0x8c, 0x8c, 0, true, ALL, 0},                                   // mov r/m,segment
    {MAP_1, 0x8d, 0x8e, 0, true, 0, 0},                                     // lea, mov segment,r/m
    {MAP_1, 0x8f, 0x8f, 0, true, ALL, 0},                                   // pop
    {MAP_1, 0xa2, 0xa5, 0, false, ALL, 0},                                  // mov offset,al; movs
    {MAP_1, 0xaa, 0xab, 0, false, ALL, 0},                                  // stos
    {MAP_1, 0xc0, 0xc1, 0, true, ALL, 0},                                   // group 2: rol ror rcl rcr shl shr sar
    {MAP_1, 0xc2, 0xc3, 0, false, 0, ALL},                                  // ret
    {MAP_1, 0xc6, 0xc7, 0, true, ALL, 0},                                   // mov r/m,imm
    {MAP_1, 0xd0, 0xd3, 0, true, ALL, 0},                                   // group 2
    {MAP_1, 0xf6, 0xf7, 0, true, REG(2) | REG(3), 0},                       // group 3: not neg; test mul imul div idiv
    {MAP_1, 0xfe, 0xfe, 0, true, ALL, 0},                                   // group 4: inc dec
    {MAP_1, 0xff, 0xff, 0, true, REG(0) | REG(1), REG(2) | REG(4)},         // group 5: inc dec, call jmp; far ones, push

    // Tables: x87 with memory.
    {MAP_1, 0xd9, 0xd9, 0, true, REG(2) | REG(3) | REG(6) | REG(7), 0},          // fst fstp fnstenv fnstcw
    {MAP_1, 0xdb, 0xdb, 0, true, REG(1) | REG(2) | REG(3) | REG(7), 0},          // fisttp fist fistp fstp
    {MAP_1, 0xdd, 0xdd, 0, true, REG(1) | REG(2) | REG(3) | REG(6) | REG(7), 0}, // fisttp fst fstp fnsave fnstsw
    {MAP_1, 0xdf, 0xdf, 0, true, REG(1) | REG(2) | REG(3) | REG(6) | REG(7), 0}, // fisttp fist fistp fbstp fistp
    {MAP_1, 0xd8, 0xdf, 0, true, 0, 0},

    // Table A-3: opcodes of two bytes. System instructions, jumps and the like are left out.
    {MAP_0F, 0x0d, 0x0d, 0, true, 0, 0},            // prefetchw
    {MAP_0F, 0x11, 0x11, 0, true, ALL, 0},          // movups movss movupd movsd
    {MAP_0F, 0x13, 0x13, 0, true, ALL, 0},          // movlps
    {MAP_0F, 0x17, 0x17, 0, true, ALL, 0},          // movhps
    {MAP_0F, 0x10, 0x18, 0, true, 0, 0},            // their loads; prefetch
    {MAP_0F, 0x1f, 0x1f, 0, true, 0, 0},            // nop
    {MAP_0F, 0x29, 0x29, 0, true, ALL, 0},          // movaps
    {MAP_0F, 0x2b, 0x2b, 0, true, ALL, 0},          // movntps
    {MAP_0F, 0x28, 0x2f, 0, true, 0, 0},            // movaps, conversions, comisd
    {MAP_0F, 0x40, 0x76, 0, true, 0, 0},            // cmov, arithmetic of vectors
    {MAP_0F, 0x7c, 0x7d, 0, true, 0, 0},            // haddps hsubps
    {MAP_0F, 0x7e, 0x7e, REPEAT, true, 0, 0},       // movq
    {MAP_0F, 0x7e, 0x7f, 0, true, ALL, 0},          // movd; movq movdqa movdqu
    {MAP_0F, 0x90, 0x9f, 0, true, ALL, 0},          // setcc
    {MAP_0F, 0xa3, 0xa3, 0, true, 0, 0},            // bt
    {MAP_0F, 0xa4, 0xa5, 0, true, ALL, 0},          // shld
    {MAP_0F, 0xab, 0xad, 0, true, ALL, 0},          // bts shrd
    {MAP_0F, 0xae, 0xae, OPERAND_SIZE, true, 0, 0}, // group 15: clwb clflushopt
    {MAP_0F, 0xae, 0xae, REPEAT, true, 0, 0},       // ptwrite
    {MAP_0F, 0xae, 0xae, 0, true, REG(0) | REG(3) | REG(4) | REG(6), 0}, // fxsave stmxcsr xsave xsaveopt; what loads them
    {MAP_0F, 0xaf, 0xaf, 0, true, 0, 0},            // imul
    {MAP_0F, 0xb0, 0xb1, 0, true, ALL, 0},          // cmpxchg
    {MAP_0F, 0xb3, 0xb3, 0, true, ALL, 0},          // btr
    {MAP_0F, 0xba, 0xba, 0, true, REG(5) | REG(6) | REG(7), 0}, // group 8: bts btr btc; bt
    {MAP_0F, 0xbb, 0xbb, 0, true, ALL, 0},          // btc
    {MAP_0F, 0xb2, 0xbf, 0, true, 0, 0},            // movzx movsx popcnt bsf bsr
    {MAP_0F, 0xc0, 0xc1, 0, true, ALL, 0},          // xadd
    {MAP_0F, 0xc3, 0xc3, 0, true, ALL, 0},          // movnti
    {MAP_0F, 0xc7, 0xc7, 0, true, REG(1) | REG(4), 0}, // group 9: cmpxchg8b cmpxchg16b, xsavec
    {MAP_0F, 0xc2, 0xc6, 0, true, 0, 0},            // cmpps pinsrw shufps
    {MAP_0F, 0xd6, 0xd6, 0, true, ALL, 0},          // movq
    {MAP_0F, 0xe7, 0xe7, 0, true, ALL, 0},          // movntq movntdq
    {MAP_0F, 0xf7, 0xf7, 0, true, ALL, 0},          // maskmovq maskmovdqu
    {MAP_0F, 0xd0, 0xff, 0, true, 0, 0},            // arithmetic of vectors

    // Table A-4: 0F 38.
    {MAP_0F38, 0xf1, 0xf1, REPEAT_NOT, true, 0, 0}, // crc32
    {MAP_0F38, 0xf1, 0xf1, 0, true, ALL, 0},        // movbe
    {MAP_0F38, 0xf9, 0xf9, 0, true, ALL, 0},        // movdiri
    {MAP_0F38, 0x00, 0xff, 0, true, 0, 0},

    // Table A-5: 0F 3A.
    {MAP_0F3A, 0x14, 0x17, 0, true, ALL, 0},        // pextrb pextrw pextrd pextrq extractps
    {MAP_0F3A, 0x00, 0xff, 0, true, 0, 0},

    // In VEX and EVEX all have a ModRM byte but vzeroupper. What they do is not told.
    {MAP_VEX, 0x00, 0xff, 0, true, 0, 0},
};
// clang-format on

// An instruction up to its opcode.
struct instruction {
    uint8_t bytes[32]; // 0 behind `count`, so that looking ahead may go too far
    int count, next;   // `next`: of the byte behind the opcode. Beyond `count`: it is cut off
    uint8_t prefixes, rex, map, opcode;
};

static uint8_t prefix_of(uint8_t byte) {
    switch (byte) {
    case 0x66: return OPERAND_SIZE;
    case 0x67: return ADDRESS_SIZE;
    case 0xf3: return REPEAT;
    case 0xf2: return REPEAT_NOT;
    case 0x64: case 0x65: return SEGMENT;
    case 0x26: case 0x2e: case 0x36: case 0x3e: case 0xf0: return OTHER_PREFIX;
    default: return 0;
    }
}

// Sections 2.1 to 2.3 and 2.7: legacy prefixes, then REX, or VEX or EVEX, which hold the bits of REX inverted.
static struct instruction read_opcode(const uint8_t *code, int count) {
    struct instruction it = {.count = count < LONGEST + 1 ? count : LONGEST + 1};
    for (int i = 0; i < it.count; i++) it.bytes[i] = code[i];
    int at = 0;
    for (uint8_t prefix; at < it.count && (prefix = prefix_of(it.bytes[at])); at++) it.prefixes |= prefix;
    if ((it.bytes[at] & 0xf0) == 0x40) it.rex = it.bytes[at++];
    const uint8_t *bytes = it.bytes + at;
    int length = 1;
    if (bytes[0] == 0x0f && bytes[1] == 0x38) it.map = MAP_0F38, length = 3;
    else if (bytes[0] == 0x0f && bytes[1] == 0x3a) it.map = MAP_0F3A, length = 3;
    else if (bytes[0] == 0x0f) it.map = MAP_0F, length = 2;
    else if (bytes[0] == 0xc5) it.map = MAP_VEX, length = 3;
    else if (bytes[0] == 0xc4) it.map = MAP_VEX, length = 4, it.rex = (uint8_t)~bytes[1] >> 5;
    else if (bytes[0] == 0x62) it.map = MAP_VEX, length = 5, it.rex = (uint8_t)~bytes[1] >> 5;
    it.opcode = bytes[length - 1];
    it.next = at + length;
    return it;
}

static const struct row *find_row(const struct instruction *it) {
    static const struct row other = {0}; // loads, if anything
    for (size_t i = 0; i < ZG_ARRAY_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        if (row->map == it->map && row->first <= it->opcode && it->opcode <= row->last &&
            (row->prefix & it->prefixes) == row->prefix)
            return row;
    }
    return &other;
}

static uint8_t reg_bit(const struct instruction *it) { return (uint8_t)REG(it->bytes[it->next] >> 3 & 7); }

enum zg_fault_access zg_arch_decode_access(const uint8_t *code, int count) {
    struct instruction it = read_opcode(code, count);
    const struct row *row = find_row(&it);
    if (it.map == MAP_VEX || it.next + row->has_modrm > it.count) return zg_fault_unknown;
    return row->jumps & reg_bit(&it) ? zg_fault_execute : row->stores & reg_bit(&it) ? zg_fault_write : zg_fault_read;
}

bool zg_arch_may_load_pointer(const uint8_t *code, int count) {
    enum { MOV = 0x8b, REX_W = 8 };
    struct instruction it = read_opcode(code, count);
    if (it.next > it.count) return it.map == MAP_1; // of the longer ones the first byte says it
    return it.map == MAP_1 && it.opcode == MOV && it.rex & REX_W && !(it.prefixes & ADDRESS_SIZE);
}

// Of an instruction with a ModRM byte.
struct operand {
    bool jumps;            // a call or jump to what the operand holds
    bool in_memory;        // not a register
    bool in_segment;       // counted from a segment's base as well
    int count;             // registers that it is counted from, or that it is
    uint64_t registers[2]; // their values
    uint64_t address;      // without the segment's base
};

static void add_register(struct operand *operand, const struct zg_registers *registers, int number, int scale) {
    static const uint8_t dwarf[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15}; // the processor's order to DWARF's
    uint64_t value = registers->value[dwarf[number]];
    operand->registers[operand->count++] = value;
    operand->address += value << scale;
}

// Section 2.1.5: ModRM, SIB and displacement. False where there is none, where it is cut off, of 32 bits, or counted from the
// instruction itself.
static bool decode_operand(const uint8_t *code, int count, const struct zg_registers *registers, struct operand *operand) {
    struct instruction it = read_opcode(code, count);
    const struct row *row = find_row(&it);
    *operand = (struct operand){.in_segment = it.prefixes & SEGMENT, .jumps = row->jumps & reg_bit(&it)};
    if (!row->has_modrm || it.prefixes & ADDRESS_SIZE) return false;
    int at = it.next;
    uint8_t modrm = it.bytes[at++], mod = modrm >> 6, base = modrm & 7;
    operand->in_memory = mod != 3;
    int distance_bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    bool has_base = true;
    if (operand->in_memory && base == 4) {
        uint8_t sib = it.bytes[at++], index = (uint8_t)((sib >> 3 & 7) | (it.rex & 2) << 2);
        base = sib & 7;
        if (mod == 0 && base == 5) has_base = false, distance_bytes = 4;
        if (index != 4) add_register(operand, registers, index, sib >> 6);
    } else if (mod == 0 && base == 5) {
        return false;
    }
    if (has_base) add_register(operand, registers, base | (it.rex & 1) << 3, 0);
    int32_t distance = 0;
    if (distance_bytes == 1) distance = (int8_t)it.bytes[at];
    else if (distance_bytes == 4) __builtin_memcpy(&distance, it.bytes + at, sizeof distance);
    operand->address += (uint64_t)(int64_t)distance;
    return at + distance_bytes <= it.count;
}

int zg_arch_operand_registers(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t values[2]) {
    struct operand operand;
    if (!decode_operand(code, count, registers, &operand) || !(operand.in_memory || operand.jumps)) return 0;
    for (int i = 0; i < operand.count; i++) values[i] = operand.registers[i];
    return operand.count;
}

bool zg_arch_call_target_place(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t *place) {
    struct operand operand;
    if (!decode_operand(code, count, registers, &operand)) return false;
    if (!operand.jumps || !operand.in_memory || operand.in_segment) return false;
    *place = operand.address;
    return true;
}

#endif
