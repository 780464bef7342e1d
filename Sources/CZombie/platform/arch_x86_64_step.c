// Executes one x86-64 instruction on known bits: the integer instructions, calls, loads and stores that compilers
// generate. Vectors can be moved and cleared; the result of any other vector instruction is unknown. Reference: volume
// 2 of Intel's manual (SDM).
// Signal context; pure except for the memory of the calling emulator; no lock.

#if defined(__x86_64__)

#include "platform/step.h"

#include "platform/arch_x86_64_instructions.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };
enum { CARRY = 1, PARITY = 2, ZERO = 4, SIGN = 8, OVERFLOW = 16, ALL_FLAGS = 31 };

struct execution {
    struct zg_cpu *cpu;
    const struct zg_x64 *it;
    struct zg_known_bits address; // address of the memory operand
    uint64_t next;                // pc of the next instruction
    enum zg_step step;
    struct zg_step_target *target;
};

// --- registers and memory --------------------------------------------------------------------------------------------

// Reads a register and marks it as used. push_operand reads the pushed register directly, because a save is not a use.
static struct zg_known_bits use_register(struct zg_cpu *cpu, int number) {
    cpu->used |= 1u << number;
    return cpu->registers[number];
}

// Returns true for ah, ch, dh and bh: numbers 4 to 7 of a byte operand without REX.
static bool is_high_byte(const struct zg_x64 *it, int number, int bytes) {
    return bytes == 1 && !it->rex && number >= 4;
}

static struct zg_known_bits get_register(struct execution *e, int number, int bytes) {
    if (!is_high_byte(e->it, number, bytes)) return zg_known_bits_cut(use_register(e->cpu, number), bytes);
    struct zg_known_bits value = use_register(e->cpu, number - 4);
    return zg_known_bits_cut((struct zg_known_bits){value.bits >> 8, value.known >> 8}, bytes);
}

static void set_register(struct execution *e, int number, int bytes, struct zg_known_bits value) {
    int shift = is_high_byte(e->it, number, bytes) ? 8 : 0;
    struct zg_known_bits *to = &e->cpu->registers[shift ? number - 4 : number];
    uint64_t mask = zg_known_bits_mask(bytes);
    value = zg_known_bits_cut(value, bytes);
    if (bytes >= 4) { // a 32-bit result clears the upper half of the register
        *to = value;
        return;
    }
    to->bits = (to->bits & ~(mask << shift)) | value.bits << shift;
    to->known = (to->known & ~(mask << shift)) | (value.known & mask) << shift;
}

static int register_of(const struct zg_x64 *it, enum zg_x64_operand operand) {
    switch (operand) {
    case zg_x64_rm: return it->rm;
    case zg_x64_reg: return it->reg;
    case zg_x64_low: return it->low;
    case zg_x64_cl: return RCX;
    default: return RAX;
    }
}

static bool get(struct execution *e, enum zg_x64_operand operand, int bytes, struct zg_known_bits *value) {
    const struct zg_x64 *it = e->it;
    if (operand == zg_x64_rm && it->in_memory) return e->cpu->load(e->cpu, e->address, bytes, value);
    if (operand == zg_x64_imm) *value = zg_known_bits_word((uint64_t)it->immediate);
    else if (operand == zg_x64_one) *value = zg_known_bits_word(1);
    else *value = get_register(e, register_of(it, operand), operand == zg_x64_cl ? 1 : bytes);
    return true;
}

// Reads both operands, memory first: if the load ends the emulation, only the address registers are marked as used.
static bool get_both(struct execution *e, int bytes, struct zg_known_bits *to, struct zg_known_bits *from) {
    if (e->it->to == zg_x64_rm) return get(e, e->it->to, bytes, to) && get(e, e->it->from, bytes, from);
    return get(e, e->it->from, bytes, from) && get(e, e->it->to, bytes, to);
}

static bool set(struct execution *e, enum zg_x64_operand operand, int bytes, struct zg_known_bits value) {
    if (operand == zg_x64_rm && e->it->in_memory) return e->cpu->store(e->cpu, e->address, bytes, value);
    set_register(e, register_of(e->it, operand), bytes, value);
    return true;
}

// Makes the operand unknown. Because the instruction may leave a 32-bit register unchanged, its upper half is not known
// to be 0.
static bool forget(struct execution *e, enum zg_x64_operand operand, int bytes) {
    bool is_register = operand != zg_x64_rm || !e->it->in_memory;
    return set(e, operand, is_register && bytes == 4 ? 8 : bytes, zg_known_bits_none());
}

static bool push(struct zg_cpu *cpu, struct zg_known_bits value) {
    cpu->registers[RSP].bits -= 8;
    return cpu->store(cpu, cpu->registers[RSP], 8, value);
}

static bool pop(struct zg_cpu *cpu, struct zg_known_bits *value) {
    if (!cpu->load(cpu, cpu->registers[RSP], 8, value)) return false;
    cpu->registers[RSP].bits += 8;
    return true;
}

static struct zg_known_bits address_of(const struct execution *e) {
    const struct zg_x64 *it = e->it;
    uint64_t offset = (uint64_t)it->displacement + (it->from_pc ? e->next : 0);
    struct zg_known_bits address = zg_known_bits_word(offset);
    if (it->base != ZG_X64_NO_REGISTER) {
        address = use_register(e->cpu, it->base);
        if (offset) address = zg_known_bits_sum(address, zg_known_bits_word(offset));
    }
    if (it->index != ZG_X64_NO_REGISTER) {
        struct zg_known_bits index = use_register(e->cpu, it->index);
        index.bits <<= it->scale;
        address = zg_known_bits_sum(address, index);
    }
    if (it->operation == zg_x64_address) return address; // lea ignores the segment base
    if (it->prefixes & ZG_X64_FS) address = zg_known_bits_sum(address, e->cpu->thread);
    return it->prefixes & ZG_X64_GS ? zg_known_bits_none() : address;
}

// --- flags -----------------------------------------------------------------------------------------------------------

static void set_flags(struct zg_cpu *cpu, uint64_t result, int bytes, bool carry, bool overflow) {
    result &= zg_known_bits_mask(bytes);
    cpu->known_flags = ALL_FLAGS;
    cpu->flags =
        (uint8_t)((carry ? CARRY : 0) | (result ? 0 : ZERO) | (overflow ? OVERFLOW : 0) |
                  (result >> (8 * bytes - 1) ? SIGN : 0) | (__builtin_popcount((uint8_t)result) & 1 ? 0 : PARITY));
}

static void set_carry(struct zg_cpu *cpu, uint8_t kept, bool carry) {
    cpu->known_flags = (uint8_t)((cpu->known_flags & kept) | CARRY);
    cpu->flags = (uint8_t)((cpu->flags & ~CARRY) | (carry ? CARRY : 0));
}

// Evaluates the condition code of jcc, setcc and cmovcc. False if a flag that it needs is unknown.
static bool condition(const struct zg_cpu *cpu, int number, bool *holds) {
    static const uint8_t needed[8] = {
        OVERFLOW, CARRY, ZERO, CARRY | ZERO, SIGN, PARITY, SIGN | OVERFLOW, SIGN | OVERFLOW | ZERO};
    uint8_t flags = cpu->flags, asked = needed[number >> 1 & 7];
    bool is_less = !(flags & SIGN) != !(flags & OVERFLOW);
    if ((cpu->known_flags & asked) != asked) return false;
    switch (number >> 1 & 7) {
    case 6: *holds = is_less; break;
    case 7: *holds = is_less || flags & ZERO; break;
    default: *holds = flags & asked;
    }
    if (number & 1) *holds = !*holds;
    return true;
}

// --- moves -----------------------------------------------------------------------------------------------------------

static struct zg_known_bits with_sign(struct zg_known_bits value, int bytes) {
    int spare = 64 - 8 * bytes;
    return zg_known_bits_is_whole(value) ? zg_known_bits_word((uint64_t)((int64_t)(value.bits << spare) >> spare))
                                         : zg_known_bits_none();
}

static bool move(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits value;
    if (it->to == zg_x64_rm && it->from == zg_x64_imm && it->reg & 7) return false; // xabort, xbegin
    return get(e, it->from, it->bytes, &value) && set(e, it->to, it->bytes, value);
}

// movzx, movsx, movsxd
static bool move_part(struct execution *e, bool is_signed) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits value;
    int bytes = it->map == zg_x64_map_1 ? 4 : it->opcode & 1 ? 2 : 1;
    if (!get(e, it->from, bytes, &value)) return false;
    return set(e, it->to, it->width, is_signed ? with_sign(value, bytes) : value);
}

static bool move_if(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits value;
    bool holds;
    if (!get(e, it->from, it->width, &value)) return false;
    if (!condition(e->cpu, it->opcode, &holds)) value = zg_known_bits_none();
    else if (!holds) value = get_register(e, it->reg, it->width);
    return set(e, it->to, it->width, value);
}

static bool set_if(struct execution *e) {
    bool holds, is_told = condition(e->cpu, e->it->opcode, &holds);
    return set(e, e->it->to, 1, is_told ? zg_known_bits_word(holds) : zg_known_bits_none());
}

static bool exchange(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits old, value;
    return get_both(e, it->bytes, &old, &value) && set(e, it->to, it->bytes, value) && set(e, it->from, it->bytes, old);
}

// 16-bit pushes (prefix 66) are not emulated.
static bool push_operand(struct execution *e) {
    struct zg_known_bits value = e->cpu->registers[e->it->low];
    if (e->it->width == 2 || (e->it->from != zg_x64_low && !get(e, e->it->from, 8, &value))) return false;
    return push(e->cpu, value);
}

static bool pop_register(struct execution *e) {
    struct zg_known_bits value;
    return e->it->width != 2 && pop(e->cpu, &value) && set(e, e->it->to, 8, value);
}

static bool leave(struct zg_cpu *cpu) {
    struct zg_known_bits value;
    cpu->registers[RSP] = cpu->registers[RBP];
    if (!zg_known_bits_is_whole(cpu->registers[RSP]) || !pop(cpu, &value)) return false;
    cpu->registers[RBP] = value;
    return true;
}

static bool move_group(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_cpu *cpu = e->cpu;
    struct zg_known_bits value;
    switch (it->operation) {
    case zg_x64_nothing: return it->has_modrm || !it->low; // with REX.B, opcode 90 is xchg
    case zg_x64_move: return move(e);
    case zg_x64_move_zero: return move_part(e, false);
    case zg_x64_move_sign: return move_part(e, true);
    case zg_x64_move_if: return move_if(e);
    case zg_x64_set_if: return set_if(e);
    case zg_x64_exchange: return exchange(e);
    case zg_x64_address: return it->in_memory && set(e, it->to, it->width, e->address);
    case zg_x64_push: return push_operand(e);
    case zg_x64_pop: return pop_register(e);
    case zg_x64_leave: return it->width != 2 && leave(cpu);
    case zg_x64_widen:
        value = get_register(e, RAX, it->width / 2);
        return set(e, it->to, it->width, with_sign(value, it->width / 2));
    case zg_x64_spread:
        value = get_register(e, RAX, it->width);
        if (zg_known_bits_is_whole(value)) value = zg_known_bits_word(0 - (value.bits >> (8 * it->width - 1)));
        else value = zg_known_bits_none();
        set_register(e, RDX, it->width, value);
        return true;
    case zg_x64_swap_bytes: return set(e, it->to, 8, zg_known_bits_none());
    case zg_x64_read_time: cpu->registers[RAX] = cpu->registers[RDX] = zg_known_bits_none(); return true;
    }
    return false;
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

// Operation numbers of group 1 and of the upper left quarter of table A-2.
enum { ADD, OR, ADC, SBB, AND, SUB, XOR, CMP };

static struct zg_known_bits logical(struct zg_cpu *cpu, int operation, struct zg_known_bits a, struct zg_known_bits b,
                                    int bytes) {
    struct zg_known_bits result = operation == AND  ? zg_known_bits_and(a, b)
                                  : operation == OR ? zg_known_bits_or(a, b)
                                                    : zg_known_bits_xor(a, b);
    if (zg_known_bits_is_whole(result)) set_flags(cpu, result.bits, bytes, false, false);
    else cpu->flags = 0, cpu->known_flags = result.bits & result.known ? ZERO : 0;
    return result;
}

static struct zg_known_bits calculated(struct zg_cpu *cpu, int operation, struct zg_known_bits a,
                                       struct zg_known_bits b, int bytes) {
    uint64_t mask = zg_known_bits_mask(bytes), sign = UINT64_C(1) << (8 * bytes - 1);
    bool adds = operation == ADD || operation == ADC, takes_carry = operation == ADC || operation == SBB;
    bool carry = takes_carry && cpu->flags & CARRY, is_carry_known = !takes_carry || cpu->known_flags & CARRY;
    a = zg_known_bits_cut(a, bytes), b = zg_known_bits_cut(b, bytes);
    if (operation == AND || operation == OR || operation == XOR) return logical(cpu, operation, a, b, bytes);
    if (!zg_known_bits_is_whole(a) || !zg_known_bits_is_whole(b) || !is_carry_known) {
        cpu->known_flags = 0;
        return zg_known_bits_none();
    }
    uint64_t result = (adds ? a.bits + b.bits + carry : a.bits - b.bits - carry) & mask;
    bool is_below = adds ? result < a.bits : a.bits < b.bits;
    bool is_same = adds ? result == a.bits : a.bits == b.bits;
    bool overflow = (adds ? ~(a.bits ^ b.bits) : a.bits ^ b.bits) & (a.bits ^ result) & sign;
    set_flags(cpu, result, bytes, is_below || (carry && is_same), overflow);
    return zg_known_bits_word(result);
}

static bool calculate(struct execution *e) {
    const struct zg_x64 *it = e->it;
    int operation = it->from == zg_x64_imm && it->has_modrm ? it->reg & 7 : it->opcode >> 3;
    struct zg_known_bits a, b;
    if (!get_both(e, it->bytes, &a, &b)) return false;
    bool is_same = it->has_modrm && it->from != zg_x64_imm && !it->in_memory && it->rm == it->reg;
    if (is_same && (operation == XOR || operation == SUB)) a = b = zg_known_bits_word(0);
    a = calculated(e->cpu, operation, a, b, it->bytes);
    return operation == CMP || set(e, it->to, it->bytes, a);
}

static bool test(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits a, b;
    if (!get_both(e, it->bytes, &a, &b)) return false;
    calculated(e->cpu, AND, a, b, it->bytes);
    return true;
}

static bool unary(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits value;
    if (!get(e, it->to, it->bytes, &value)) return false;
    switch (it->reg & 7) {
    case 0:
    case 1: calculated(e->cpu, AND, value, zg_known_bits_word((uint64_t)it->immediate), it->bytes); return true;
    case 2: return set(e, it->to, it->bytes, (struct zg_known_bits){~value.bits & value.known, value.known});
    case 3: return set(e, it->to, it->bytes, calculated(e->cpu, SUB, zg_known_bits_word(0), value, it->bytes));
    }
    e->cpu->registers[RAX] = e->cpu->registers[RDX] = zg_known_bits_none(); // mul imul div idiv
    e->cpu->known_flags = 0;
    return true;
}

// Operation numbers of group 2. rotated() and shifted() require a `count` other than 0.
enum { ROL, ROR, RCL, RCR, SHL, SHR, SAL, SAR };

static struct zg_known_bits rotated(struct zg_cpu *cpu, int operation, uint64_t value, uint64_t count, int bytes) {
    uint64_t bits = 8 * (uint64_t)bytes;
    cpu->known_flags &= (uint8_t) ~(CARRY | OVERFLOW);
    if (operation == RCL || operation == RCR || count >= bits) return zg_known_bits_none();
    if (operation == ROR) count = bits - count;
    return zg_known_bits_word(value << count | value >> (bits - count));
}

static struct zg_known_bits shifted(struct zg_cpu *cpu, int operation, uint64_t value, uint64_t count, int bytes) {
    uint64_t bits = 8 * (uint64_t)bytes, result = value >> count;
    if (operation == SAR) result = (uint64_t)((int64_t)with_sign(zg_known_bits_word(value), bytes).bits >> count);
    bool is_left = operation == SHL || operation == SAL;
    if (is_left) result = value << count;
    bool carry = count < bits && value >> (is_left ? bits - count : count - 1) & 1;
    set_flags(cpu, result, bytes, carry, false);
    cpu->known_flags = ZERO | SIGN | (count < bits ? CARRY : 0);
    return zg_known_bits_word(result);
}

static bool shift(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits value, by;
    int operation = it->reg & 7;
    if (!get_both(e, it->bytes, &value, &by)) return false;
    uint64_t count = by.bits & (it->bytes == 8 ? 63 : 31);
    if (!zg_known_bits_is_whole(by) || (count && !zg_known_bits_is_whole(value))) {
        e->cpu->known_flags = 0;
        return set(e, it->to, it->bytes, zg_known_bits_none());
    }
    if (!count) return it->in_memory || set(e, it->to, it->bytes, value);
    value = operation <= RCR ? rotated(e->cpu, operation, value.bits, count, it->bytes)
                             : shifted(e->cpu, operation, value.bits, count, it->bytes);
    return set(e, it->to, it->bytes, value);
}

// shld and shrd shift a register or memory, and fill it from another register.
static bool shift_pair(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits value, by, result = zg_known_bits_none();
    bool is_left = it->opcode < 0xa8;
    if (!get_both(e, it->width, &value, &by)) return false;
    struct zg_known_bits other = get_register(e, it->reg, it->width);
    uint64_t bits = 8 * (uint64_t)it->width, count = by.bits & (it->width == 8 ? 63 : 31);
    if (zg_known_bits_is_whole(by) && !count) return it->in_memory || set(e, it->to, it->width, value);
    e->cpu->known_flags = 0;
    bool is_told = zg_known_bits_is_whole(by) && zg_known_bits_is_whole(value) && zg_known_bits_is_whole(other);
    if (is_told && it->width > 2) { // counts above 16 are undefined for 16-bit operands
        uint64_t shifted_in = is_left ? other.bits >> (bits - count) : other.bits << (bits - count);
        result = zg_known_bits_word((is_left ? value.bits << count : value.bits >> count) | shifted_in);
        set_flags(e->cpu, result.bits, it->width, value.bits >> (is_left ? bits - count : count - 1) & 1, false);
        e->cpu->known_flags = ZERO | SIGN | CARRY;
    }
    return set(e, it->to, it->width, result);
}

static bool multiply(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits a, b, product = zg_known_bits_none();
    if (!get(e, zg_x64_rm, it->width, &a) || !get(e, it->from, it->width, &b)) return false;
    if (zg_known_bits_is_whole(a) && zg_known_bits_is_whole(b)) product = zg_known_bits_word(a.bits * b.bits);
    e->cpu->known_flags = 0;
    return set(e, it->to, it->width, product);
}

// bt, bts, btr, btc. A bit number in a register may select a bit in memory beyond the operand.
static bool test_bit(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits value, number;
    bool is_immediate = it->from == zg_x64_imm;
    int operation = is_immediate ? it->reg & 3 : it->opcode >> 3 & 3;
    if ((is_immediate && !(it->reg & 4)) || !get(e, it->from, it->width, &number)) return false;
    uint64_t bits = 8 * (uint64_t)it->width, place = number.bits & (bits - 1), bit = UINT64_C(1) << place;
    bool is_told = zg_known_bits_is_whole(number);
    if (it->in_memory && !is_immediate && (!is_told || number.bits >= bits)) {
        e->cpu->known_flags = 0;
        return !operation || set(e, it->to, it->width, zg_known_bits_none());
    }
    if (!get(e, it->to, it->width, &value)) return false;
    if (is_told && value.known & bit) set_carry(e->cpu, ZERO, value.bits & bit);
    else e->cpu->known_flags &= ZERO;
    if (!operation) return true;
    if (!is_told) return set(e, it->to, it->width, zg_known_bits_none());
    struct zg_known_bits mask = zg_known_bits_word(bit), others = zg_known_bits_word(~bit);
    value = operation == 1   ? zg_known_bits_or(value, mask)
            : operation == 2 ? zg_known_bits_and(value, others)
                             : zg_known_bits_xor(value, mask);
    return set(e, it->to, it->width, value);
}

// popcnt, bsf, bsr, tzcnt, lzcnt
static bool scan_bits(struct execution *e) {
    struct zg_known_bits value;
    if (!get(e, e->it->from, e->it->width, &value)) return false;
    e->cpu->known_flags = 0;
    return forget(e, e->it->to, e->it->width);
}

static bool exchange_add(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits old, by;
    if (!get_both(e, it->bytes, &old, &by)) return false;
    set_register(e, it->reg, it->bytes, old);
    return set(e, it->to, it->bytes, calculated(e->cpu, ADD, old, by, it->bytes));
}

static bool compare_exchange(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits old, value;
    bool is_equal;
    if (!get_both(e, it->bytes, &old, &value)) return false;
    calculated(e->cpu, CMP, get_register(e, RAX, it->bytes), old, it->bytes);
    if (!condition(e->cpu, 4, &is_equal)) {
        forget(e, zg_x64_ax, it->bytes);
        return forget(e, it->to, it->bytes);
    }
    if (is_equal) return set(e, it->to, it->bytes, value);
    set_register(e, RAX, it->bytes, old);
    return true;
}

// cmpxchg8b and cmpxchg16b compare rdx:rax and store rcx:rbx.
static bool compare_exchange_pair(struct execution *e) {
    static const int compared[2] = {RAX, RDX}, stored[2] = {RBX, RCX};
    struct zg_cpu *cpu = e->cpu;
    int half = e->it->width == 8 ? 8 : 4;
    bool is_equal = true, is_different = false;
    struct zg_known_bits old[2],
        places[2] = {e->address, zg_known_bits_sum(e->address, zg_known_bits_word((uint64_t)half))};
    if ((e->it->reg & 7) != 1 || !e->it->in_memory) return false;
    for (int i = 0; i < 2; i++) {
        if (!cpu->load(cpu, places[i], half, &old[i])) return false;
        struct zg_known_bits wanted = get_register(e, compared[i], half);
        if (!zg_known_bits_is_whole(old[i]) || !zg_known_bits_is_whole(wanted)) is_equal = false;
        if ((old[i].bits ^ wanted.bits) & old[i].known & wanted.known) is_equal = false, is_different = true;
    }
    cpu->flags = is_equal ? cpu->flags | ZERO : cpu->flags & (uint8_t)~ZERO;
    cpu->known_flags = is_equal || is_different ? cpu->known_flags | ZERO : cpu->known_flags & (uint8_t)~ZERO;
    for (int i = 0; i < 2; i++) {
        struct zg_known_bits value = is_equal ? get_register(e, stored[i], half) : zg_known_bits_none();
        if (!is_different && !cpu->store(cpu, places[i], half, value)) return false;
        if (is_different) set_register(e, compared[i], half, old[i]);
        else if (!is_equal) set_register(e, compared[i], 8, zg_known_bits_none());
    }
    return true;
}

static bool arithmetic_group(struct execution *e) {
    switch (e->it->operation) {
    case zg_x64_calculate: return calculate(e);
    case zg_x64_test: return test(e);
    case zg_x64_unary: return unary(e);
    case zg_x64_shift: return shift(e);
    case zg_x64_shift_pair: return shift_pair(e);
    case zg_x64_multiply: return multiply(e);
    case zg_x64_test_bit: return test_bit(e);
    case zg_x64_scan_bits: return scan_bits(e);
    case zg_x64_exchange_add: return exchange_add(e);
    case zg_x64_compare_exchange: return compare_exchange(e);
    case zg_x64_compare_exchange_pair: return compare_exchange_pair(e);
    }
    return false;
}

// --- branches --------------------------------------------------------------------------------------------------------

static bool lead(struct execution *e, enum zg_step step, struct zg_known_bits code) {
    e->step = step;
    e->target->code = code;
    return true;
}

static bool jump_if(struct execution *e, struct zg_known_bits code) {
    bool holds;
    if (!condition(e->cpu, e->it->opcode, &holds)) return lead(e, zg_step_forks, code);
    if (holds) e->next = code.bits;
    return true;
}

static bool return_from(struct execution *e) {
    struct zg_known_bits code;
    if (!pop(e->cpu, &code)) return false;
    e->cpu->registers[RSP].bits += (uint16_t)e->it->immediate;
    return lead(e, zg_step_returns, code);
}

// Groups 4 and 5: inc, dec, call, jmp and push with an r/m operand.
static bool count_or_call(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_cpu *cpu = e->cpu;
    struct zg_known_bits value;
    int operation = it->reg & 7;
    bool is_far = operation == 3 || operation == 5;
    if (is_far || operation == 7 || (it->opcode == 0xfe && operation > 1)) return false;
    if (!get(e, it->to, operation > 1 ? 8 : it->bytes, &value)) return false;
    if (operation == 2) return lead(e, zg_step_calls, value);
    if (operation == 6) return it->width != 2 && push(cpu, value);
    if (operation == 4) {
        e->target->may_be_call = true;
        e->target->place = it->in_memory && zg_known_bits_is_whole(e->address) ? e->address.bits : 0;
        return lead(e, zg_step_jumps, value);
    }
    uint8_t flags = cpu->flags, known_flags = cpu->known_flags;
    value = calculated(cpu, operation ? SUB : ADD, value, zg_known_bits_word(1), it->bytes);
    cpu->flags = (uint8_t)((cpu->flags & ~CARRY) | (flags & CARRY)); // inc and dec preserve the carry
    cpu->known_flags = (uint8_t)((cpu->known_flags & ~CARRY) | (known_flags & CARRY));
    return set(e, it->to, it->bytes, value);
}

static bool branch_group(struct execution *e) {
    struct zg_known_bits code = zg_known_bits_word(e->next + (uint64_t)e->it->immediate);
    switch (e->it->operation) {
    case zg_x64_jump_if: return jump_if(e, code);
    case zg_x64_jump: e->target->may_be_call = e->it->opcode == 0xe9; return lead(e, zg_step_jumps, code);
    case zg_x64_call: return lead(e, zg_step_calls, code);
    case zg_x64_return: return return_from(e);
    case zg_x64_trap: e->step = zg_step_trap; return true;
    case zg_x64_count_or_call: return count_or_call(e);
    }
    return false;
}

// --- vectors ---------------------------------------------------------------------------------------------------------

static void set_vector(struct zg_cpu *cpu, int number, struct zg_known_bits low, struct zg_known_bits high) {
    cpu->vectors[number][0] = low, cpu->vectors[number][1] = high;
}

static void forget_vector(struct zg_cpu *cpu, int number) {
    set_vector(cpu, number, zg_known_bits_none(), zg_known_bits_none());
}

// movss and movsd move 4 and 8 bytes.
static int vector_bytes(const struct zg_x64 *it) {
    bool is_scalar = it->opcode == 0x10 || it->opcode == 0x11;
    return is_scalar && it->prefixes & ZG_X64_REPEAT ? 4 : is_scalar && it->prefixes & ZG_X64_REPEAT_NOT ? 8 : 16;
}

static bool load_vector(struct execution *e, int bytes, struct zg_known_bits to[2]) {
    struct zg_cpu *cpu = e->cpu;
    to[0] = cpu->vectors[e->it->rm][0], to[1] = cpu->vectors[e->it->rm][1];
    if (!e->it->in_memory) return true;
    to[1] = zg_known_bits_word(0);
    if (!cpu->load(cpu, e->address, bytes > 8 ? 8 : bytes, &to[0])) return false;
    return bytes <= 8 || cpu->load(cpu, zg_known_bits_sum(e->address, zg_known_bits_word(8)), 8, &to[1]);
}

static bool store_vector(struct execution *e, int bytes, const struct zg_known_bits from[2]) {
    struct zg_cpu *cpu = e->cpu;
    if (!cpu->store(cpu, e->address, bytes > 8 ? 8 : bytes, from[0])) return false;
    return bytes <= 8 || cpu->store(cpu, zg_known_bits_sum(e->address, zg_known_bits_word(8)), 8, from[1]);
}

// Copies the low `bytes` bytes of a vector register to another; the other bytes do not change.
static void copy_vector(struct zg_known_bits to[2], const struct zg_known_bits from[2], int bytes) {
    uint64_t mask = zg_known_bits_mask(bytes);
    to[0].bits = (to[0].bits & ~mask) | (from[0].bits & mask);
    to[0].known = (to[0].known & ~mask) | (from[0].known & mask);
    if (bytes > 8) to[1] = from[1];
}

static bool move_vector(struct execution *e, bool stores) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits *reg = e->cpu->vectors[it->reg], *rm = e->cpu->vectors[it->rm];
    if (!it->in_memory) copy_vector(stores ? rm : reg, stores ? reg : rm, vector_bytes(it));
    else return stores ? store_vector(e, vector_bytes(it), reg) : load_vector(e, vector_bytes(it), reg);
    return true;
}

// Makes the result unknown. Still loads a memory operand, because the load may end the emulation.
static bool forget_result(struct execution *e, int bytes) {
    const struct zg_x64 *it = e->it;
    struct zg_known_bits loaded[2];
    if (!load_vector(e, bytes, loaded)) return false;
    if (it->operation == zg_x64_vector_compare || it->operation == zg_x64_vector_other_whole) e->cpu->known_flags = 0;
    if (it->operation == zg_x64_vector_compare) return true;
    if (it->operation == zg_x64_vector_summary) set_register(e, it->reg, 8, zg_known_bits_none());
    else forget_vector(e->cpu, it->reg);
    if (it->operation == zg_x64_vector_shift) forget_vector(e->cpu, it->rm);
    return true;
}

static bool vector_group(struct execution *e) {
    const struct zg_x64 *it = e->it;
    struct zg_cpu *cpu = e->cpu;
    struct zg_known_bits value[2], zero = zg_known_bits_word(0);
    int bytes = it->width == 8 ? 8 : 4;
    switch (it->operation) {
    case zg_x64_vector_load: return move_vector(e, false);
    case zg_x64_vector_store: return move_vector(e, true);
    case zg_x64_vector_store_half:
        if (it->in_memory) return store_vector(e, 8, cpu->vectors[it->reg]);
        set_vector(cpu, it->rm, cpu->vectors[it->reg][0], zero);
        return true;
    case zg_x64_vector_store_unknown: return it->in_memory && cpu->store(cpu, e->address, 8, zg_known_bits_none());
    case zg_x64_vector_from_register:
        if (!get(e, zg_x64_rm, bytes, value)) return false;
        set_vector(cpu, it->reg, value[0], zero);
        return true;
    case zg_x64_vector_to_register: return set(e, zg_x64_rm, bytes, cpu->vectors[it->reg][0]);
    case zg_x64_vector_half:
        if (!load_vector(e, 8, value)) return false;
        set_vector(cpu, it->reg, value[0], zero);
        return true;
    case zg_x64_vector_xor:
        if (it->in_memory || it->rm != it->reg) return forget_result(e, 8);
        set_vector(cpu, it->reg, zero, zero);
        return true;
    case zg_x64_vector_unpack:
        if (!load_vector(e, 8, value)) return false;
        cpu->vectors[it->reg][1] = value[0];
        return true;
    case zg_x64_vector_compare: return forget_result(e, 4);
    case zg_x64_vector_other_whole: return forget_result(e, 16);
    default: return forget_result(e, 8);
    }
}

// --- the step --------------------------------------------------------------------------------------------------------

static bool execute(struct execution *e) {
    switch (e->it->operation / 16) {
    case 0: return move_group(e);
    case 1: return arithmetic_group(e);
    case 2: return branch_group(e);
    default: return vector_group(e);
    }
}

enum zg_step zg_arch_step(struct zg_cpu *cpu, const uint8_t *code, int count, struct zg_step_target *target) {
    struct zg_x64 it = zg_x64_read(code, count);
    *target = (struct zg_step_target){0};
    cpu->used = cpu->set = 0;
    bool is_cut = it.length > count || it.length > ZG_X64_LONGEST;
    if (it.operation == zg_x64_other || is_cut || it.prefixes & ZG_X64_ADDRESS_SIZE) return zg_step_lost;
    struct execution e = {
        .cpu = cpu, .it = &it, .next = cpu->pc + (uint64_t)it.length, .step = zg_step_next, .target = target};
    if (it.in_memory) e.address = address_of(&e);
    if (!execute(&e)) return zg_step_lost;
    cpu->pc = e.next;
    return e.step;
}

bool zg_arch_step_link(struct zg_cpu *cpu, uint64_t return_address) {
    return push(cpu, zg_known_bits_word(return_address));
}

#endif
