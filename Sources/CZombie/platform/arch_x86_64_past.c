// Finds the x86-64 instruction that a watchpoint's trap follows, and its access to memory. The processor reports only
// the next instruction, and code cannot be decoded backwards. So the code in front is decoded forwards from several
// starts; these decodings soon agree on where instructions begin.
// Signal context; pure, no lock.

#if defined(__x86_64__)

#include "platform/arch_x86_64_instructions.h"
#include "platform/step.h"

enum { RSI = 6, RDI = 7 }; // as instructions encode them
enum { WORD = 8 };

// The fields of a VEX or EVEX prefix that zg_x64_read does not decode (sections 2.3 and 2.7 of volume 2 of Intel's
// manual).
struct vex {
    int bytes;      // length of the prefix; 0: none
    uint8_t map;    // 1: 0F, 2: 0F 38, 3: 0F 3A
    uint8_t prefix; // 0, 1: 66, 2: F3, 3: F2
    int vector;     // bytes of the vector
    bool is_masked;
};

static struct vex read_vex(const uint8_t *code) {
    int at = 0;
    while (code[at] == 0x2e || code[at] == 0x3e || code[at] == 0x64 || code[at] == 0x65 || code[at] == 0x67) at++;
    const uint8_t *prefix = code + at;
    if (prefix[0] == 0xc5) return (struct vex){2, 1, prefix[1] & 3, prefix[1] & 4 ? 32 : 16, false};
    if (prefix[0] == 0xc4) return (struct vex){3, prefix[1] & 31, prefix[2] & 3, prefix[2] & 4 ? 32 : 16, false};
    if (prefix[0] != 0x62) return (struct vex){0};
    return (struct vex){4, prefix[1] & 7, prefix[2] & 3, 16 << (prefix[3] >> 5 & 3), prefix[3] & 7};
}

// One decoded instruction, with the operand bytes that zg_x64_read does not count included in `length`.
struct instruction {
    struct zg_x64 it;
    struct vex vex;
    int length;
};

static bool vex_has_immediate(const struct vex *vex, uint8_t opcode) {
    return vex->map == 3 || (vex->map == 1 && ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
                                               (opcode >= 0xc4 && opcode <= 0xc6)));
}

// Returns the number of operand bytes that zg_x64_read does not count, because no emulator executes these instructions.
static int uncounted_bytes(const struct zg_x64 *it) {
    if (it->map == zg_x64_map_0f) return it->opcode <= 0x01 ? 1 : 0; // groups 6 and 7 (xgetbv)
    if (it->map != zg_x64_map_1) return 0;
    switch (it->opcode) {
    case 0xa0 ... 0xa3: return 8; // mov with a whole address
    case 0xc8: return 3;          // enter
    case 0xcd:                    // int
    case 0xd4 ... 0xd5:
    case 0xe0 ... 0xe7: return 1; // loop, jrcxz, in, out
    default: return 0;
    }
}

static struct instruction read(const uint8_t *code, int count) {
    uint8_t bytes[ZG_X64_LONGEST + 1] = {0};
    if (count > ZG_X64_LONGEST) count = ZG_X64_LONGEST;
    __builtin_memcpy(bytes, code, (uint64_t)count);
    struct instruction one = {.it = zg_x64_read(bytes, count), .vex = read_vex(bytes)};
    one.length = one.it.length + uncounted_bytes(&one.it);
    if (one.it.map == zg_x64_map_vex) {
        bool is_zero_upper = one.vex.map == 1 && one.it.opcode == 0x77 && one.vex.bytes < 4; // without operands
        one.length = is_zero_upper ? one.it.opcode_end : one.it.operand_end;
        one.length += vex_has_immediate(&one.vex, one.it.opcode) ? 1 : 0;
    }
    return one;
}

// Returns the place of the instruction that ends at `behind`, -1 if the decodings do not agree. A decoding that begins
// inside an instruction reaches a true beginning after a few instructions.
static int find_previous(const uint8_t *code, int behind) {
    enum { STARTS = 32 };
    int votes[ZG_X64_LONGEST + 1] = {0}, starts = 0;
    for (int start = 0; start < behind && start < STARTS; start++) {
        int at = start, previous = start;
        while (at < behind) {
            previous = at;
            at += read(code + at, behind - at).length;
        }
        starts++;
        if (at == behind && behind - previous <= ZG_X64_LONGEST) votes[behind - previous]++;
    }
    int best = 0;
    for (int length = 1; length <= ZG_X64_LONGEST; length++)
        if (votes[length] > votes[best]) best = length;
    return best && votes[best] * 4 >= starts * 3 ? behind - best : -1;
}

static uint64_t value_of(const struct zg_registers *registers, uint8_t number) {
    return registers->value[zg_arch_dwarf_number(number)];
}

static bool is_string_operation(const struct zg_x64 *it) {
    return it->map == zg_x64_map_1 &&
           ((it->opcode >= 0xa4 && it->opcode <= 0xa7) || (it->opcode >= 0xaa && it->opcode <= 0xaf));
}

// Finds the access of movs, cmps, stos, lods or scas, which has moved rsi, rdi, or both behind the accessed bytes. With
// a repeat prefix, the instruction may have accessed many bytes before the trap.
static bool find_string_access(const struct zg_x64 *it, const struct zg_registers *registers, uint64_t start,
                               struct zg_past_access *found) {
    enum { AT_ONCE = 256 };
    bool has_source = it->opcode <= 0xa7 || it->opcode == 0xac || it->opcode == 0xad;
    bool has_target = it->opcode != 0xac && it->opcode != 0xad;
    bool target_is_written = it->opcode <= 0xa5 || it->opcode == 0xaa || it->opcode == 0xab;
    bool is_source = has_source && value_of(registers, RSI) - start - 1 < AT_ONCE;
    bool is_target = has_target && value_of(registers, RDI) - start - 1 < AT_ONCE;
    if (is_source == is_target) return false;
    found->access = is_target && target_is_written ? zg_fault_write : zg_fault_read;
    found->address = start;
    found->is_vector = false;
    return true;
}

// Returns true for opcodes of VEX and EVEX instructions that write memory.
static bool vex_stores(const struct vex *vex, uint8_t opcode) {
    if (vex->map == 1)
        return opcode == 0x11 || opcode == 0x13 || opcode == 0x17 || opcode == 0x29 || opcode == 0x2b ||
               (opcode == 0x7e && vex->prefix == 1) || opcode == 0x7f || opcode == 0xd6 || opcode == 0xe7;
    if (vex->map == 3)
        return (opcode >= 0x14 && opcode <= 0x17) || opcode == 0x19 || opcode == 0x1b || opcode == 0x1d ||
               opcode == 0x39 || opcode == 0x3b;
    return vex->map == 2 && vex->bytes == 4 && vex->prefix == 2 && opcode >= 0x10 && opcode <= 0x35; // vpmov
}

// Returns true for masked loads and stores, gathers, and scatters.
static bool is_masked(const struct vex *vex, uint8_t opcode) {
    return vex->is_masked ||
           (vex->map == 2 &&
            ((opcode >= 0x2c && opcode <= 0x2f && vex->bytes == 3) || opcode == 0x8c || opcode == 0x8e ||
             (opcode >= 0x90 && opcode <= 0x93) || (opcode >= 0xa0 && opcode <= 0xa3)));
}

// Returns true if the instruction has overwritten a register of its operand's address.
static bool has_lost_address(const struct zg_x64 *it) {
    bool writes_reg = it->to == zg_x64_reg || it->operation == zg_x64_exchange ||
                      it->operation == zg_x64_exchange_add || it->operation == zg_x64_vector_summary;
    return writes_reg && it->map != zg_x64_map_vex && (it->reg == it->base || it->reg == it->index);
}

// Returns true if the operand may be longer than 8 bytes. Overestimating the length does no harm.
static bool is_vector_operand(const struct instruction *one) {
    const struct zg_x64 *it = &one->it;
    if (one->vex.bytes) return true;
    if (it->map == zg_x64_map_0f38) return it->opcode < 0xf0;
    if (it->map == zg_x64_map_0f3a) return it->opcode < 0x14 || it->opcode > 0x17;
    bool is_scalar = it->prefixes & (ZG_X64_REPEAT | ZG_X64_REPEAT_NOT) && it->opcode != 0x6f && it->opcode != 0x7f;
    return it->map == zg_x64_map_0f && !is_scalar &&
           ((it->opcode >= 0x10 && it->opcode <= 0x2f && it->opcode != 0x12 && it->opcode != 0x13 &&
             it->opcode != 0x16 && it->opcode != 0x17) ||
            (it->opcode >= 0x50 && it->opcode <= 0x7f && it->opcode != 0x6e && it->opcode != 0x7e) ||
            it->opcode == 0xc2 || it->opcode == 0xc6 || (it->opcode >= 0xd0 && it->opcode != 0xd6));
}

// Finds the access of the r/m operand. False if the operand is not in memory, or cannot overlap the word at `start`.
static bool find_operand_access(const struct instruction *one, const struct zg_registers *registers, uint64_t start,
                                struct zg_past_access *found) {
    enum { LONGEST_VECTOR = 64, LONGEST_SCALAR = 16 };
    const struct zg_x64 *it = &one->it;
    if (!it->has_modrm || !it->in_memory || it->prefixes & (ZG_X64_ADDRESS_SIZE | ZG_X64_FS | ZG_X64_GS)) return false;
    if (it->operation == zg_x64_address || it->operation == zg_x64_nothing) return false;
    if (one->vex.bytes && is_masked(&one->vex, it->opcode)) return false;
    found->is_vector = is_vector_operand(one);
    found->access = (one->vex.bytes ? vex_stores(&one->vex, it->opcode) : it->stores) ? zg_fault_write : zg_fault_read;
    found->address = 0;
    if (has_lost_address(it)) {
        bool is_base = it->reg == it->base && it->index != it->base;
        uint64_t index = is_base && it->index != ZG_X64_NO_REGISTER ? value_of(registers, it->index) << it->scale : 0;
        if (is_base) found->lost_register = zg_arch_dwarf_number(it->base);
        found->lost_offset = (uint64_t)it->displacement + index;
        return true;
    }
    int64_t displacement = it->displacement;
    // EVEX scales an 8-bit displacement by the size of the vector, if the operand is a whole vector.
    if (one->vex.bytes == 4 && it->operand_end - it->opcode_end <= 3 && displacement == (int8_t)displacement)
        displacement *= one->vex.vector;
    uint64_t address = (uint64_t)displacement + (it->from_pc ? registers->pc : 0);
    if (it->base != ZG_X64_NO_REGISTER) address += value_of(registers, it->base);
    if (it->index != ZG_X64_NO_REGISTER) address += value_of(registers, it->index) << it->scale;
    found->address = address;
    uint64_t longest = found->is_vector ? LONGEST_VECTOR : LONGEST_SCALAR;
    return start + WORD - 1 - address < longest + WORD - 1;
}

bool zg_arch_find_past_access(const uint8_t *code, int behind, int ahead, const struct zg_registers *registers,
                              uint64_t start, struct zg_past_access *found) {
    found->lost_register = -1;
    // If the trap interrupts a repeated string operation, the pc is still the address of that instruction.
    struct instruction next = read(code + behind, ahead);
    if (is_string_operation(&next.it) && next.it.prefixes & (ZG_X64_REPEAT | ZG_X64_REPEAT_NOT) &&
        find_string_access(&next.it, registers, start, found)) {
        found->pc = registers->pc;
        return true;
    }
    int place = find_previous(code, behind);
    if (place < 0) return false;
    struct instruction one = read(code + place, behind - place);
    found->pc = registers->pc - (uint64_t)(behind - place);
    if (is_string_operation(&one.it)) return find_string_access(&one.it, registers, start, found);
    return !one.it.jumps && find_operand_access(&one, registers, start, found);
}

#endif
