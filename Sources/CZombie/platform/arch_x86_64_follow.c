// x86-64 instructions, followed on a copy of the registers: what a program is about to do, without its being done. As many as
// compilers use for counting and branching; the first other one ends it. Volume 2 of Intel's manual (SDM), appendix A.
// Signal context; pure but for the memory that it is given, no lock.

#if defined(__x86_64__)

#include "platform/arch.h"

enum { LONGEST = 15, AX = 0, CX = 1, DX = 2, BX = 3, SP = 4, BP = 5, REX_W = 8, REX_R = 4, REX_X = 2, REX_B = 1 };
enum { OPERAND_SIZE = 1, REPEAT = 2, REPEAT_NOT = 4, THREAD_SEGMENT = 8, OTHER_SEGMENT = 16 };

struct machine {
    const struct zg_arch_memory *memory;
    uint64_t r[16], vectors[16][2], pc;
    bool carry, zero, sign, overflow;
    bool is_lost, is_stopped;
    int depth; // calls that have not returned
    // The instruction.
    uint8_t code[24], prefixes, rex;
    int at;         // of the next byte
    int size;       // bytes of its operands
    int mod, reg;   // of its ModRM byte
    int rm;         // where it is a register
    uint64_t place; // where it is in memory
};

static uint64_t cut(uint64_t value, int size) { return size == 8 ? value : value & ((UINT64_C(1) << size * 8) - 1); }
static uint64_t top(int size) { return UINT64_C(1) << (size * 8 - 1); }
static uint64_t extend(uint64_t value, int size) { return (cut(value, size) ^ top(size)) - top(size); }

// --- memory ----------------------------------------------------------------------------------------------------------

static uint64_t load(struct machine *m, uint64_t address, int size) {
    uint64_t words[2] = {0, 0}, first = address & ~UINT64_C(7), shift = (address & 7) * 8;
    if (!m->memory->read(m->memory->context, first, &words[0])) m->is_lost = true;
    bool is_crossing = (address & 7) + (uint64_t)size > 8;
    if (is_crossing && !m->memory->read(m->memory->context, first + 8, &words[1])) m->is_lost = true;
    uint64_t value = words[0] >> shift;
    if (is_crossing) value |= words[1] << (64 - shift);
    return cut(value, size);
}

static void store_word(struct machine *m, uint64_t address, uint64_t word) {
    if (!m->is_lost && !m->is_stopped && !m->memory->write(m->memory->context, address, word)) m->is_stopped = true;
}

static void store(struct machine *m, uint64_t address, int size, uint64_t value) {
    uint64_t first = address & ~UINT64_C(7), shift = (address & 7) * 8, mask = cut(~UINT64_C(0), size);
    uint64_t word = load(m, first, 8);
    store_word(m, first, (word & ~(mask << shift)) | (value & mask) << shift);
    if ((address & 7) + (uint64_t)size <= 8) return;
    word = load(m, first + 8, 8);
    store_word(m, first + 8, (word & ~(mask >> (64 - shift))) | (value & mask) >> (64 - shift));
}

static void push(struct machine *m, uint64_t value) { store(m, m->r[SP] -= 8, 8, value); }
static uint64_t pop(struct machine *m) {
    uint64_t value = load(m, m->r[SP], 8);
    m->r[SP] += 8;
    return value;
}

// --- operands --------------------------------------------------------------------------------------------------------

static uint8_t next_byte(struct machine *m) {
    if (m->at >= LONGEST) m->is_lost = true;
    return m->is_lost ? 0 : m->code[m->at++];
}

static uint64_t immediate(struct machine *m, int size) {
    uint64_t value = 0;
    for (int i = 0; i < size; i++) value |= (uint64_t)next_byte(m) << i * 8;
    return extend(value, size);
}
static uint64_t immediate_of_operand(struct machine *m) { return immediate(m, m->size == 8 ? 4 : m->size); }

static uint64_t get(const struct machine *m, int number, int size) {
    if (size == 1 && !m->rex && number >= 4) return m->r[number - 4] >> 8 & 0xff; // ah ch dh bh
    return cut(m->r[number], size);
}

static void set(struct machine *m, int number, int size, uint64_t value) {
    if (size == 1 && !m->rex && number >= 4) {
        m->r[number - 4] = (m->r[number - 4] & ~UINT64_C(0xff00)) | (value & 0xff) << 8;
        return;
    }
    // Of 32 bits: the upper half becomes 0.
    m->r[number] = size >= 4 ? cut(value, size) : (m->r[number] & ~cut(~UINT64_C(0), size)) | cut(value, size);
}

// ModRM, SIB and displacement. `behind`: bytes of the instruction behind them, from whose end a place is counted.
static void read_modrm(struct machine *m, int behind) {
    uint8_t modrm = next_byte(m);
    m->mod = modrm >> 6;
    m->reg = (modrm >> 3 & 7) | (m->rex & REX_R ? 8 : 0);
    m->rm = (modrm & 7) | (m->rex & REX_B ? 8 : 0);
    if (m->mod == 3) return;
    uint64_t place = 0;
    int distance = m->mod == 1 ? 1 : m->mod == 2 ? 4 : 0;
    if ((modrm & 7) == 4) {
        uint8_t sib = next_byte(m);
        int index = (sib >> 3 & 7) | (m->rex & REX_X ? 8 : 0);
        if (index != SP) place += m->r[index] << (sib >> 6);
        if ((sib & 7) == BP && m->mod == 0) distance = 4;
        else place += m->r[(sib & 7) | (m->rex & REX_B ? 8 : 0)];
    } else if ((modrm & 7) == BP && m->mod == 0) {
        place = m->pc + (uint64_t)(m->at + 4 + behind);
        distance = 4;
    } else {
        place += m->r[m->rm];
    }
    if (distance) place += immediate(m, distance);
    if (m->prefixes & THREAD_SEGMENT) place += (uint64_t)__builtin_thread_pointer();
    m->place = place;
}

static uint64_t get_rm(struct machine *m, int size) {
    return m->mod == 3 ? get(m, m->rm, size) : load(m, m->place, size);
}
static void set_rm(struct machine *m, int size, uint64_t value) {
    if (m->mod == 3) set(m, m->rm, size, value);
    else store(m, m->place, size, value);
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

static void note_result(struct machine *m, uint64_t result) {
    m->zero = !cut(result, m->size);
    m->sign = result & top(m->size);
}

static uint64_t add(struct machine *m, uint64_t a, uint64_t b, bool carry) {
    uint64_t sum = cut(a + b + carry, m->size);
    m->carry = sum < a || (carry && sum == a);
    m->overflow = (a ^ sum) & (b ^ sum) & top(m->size);
    note_result(m, sum);
    return sum;
}

static uint64_t subtract(struct machine *m, uint64_t a, uint64_t b, bool borrow) {
    uint64_t difference = cut(a - b - borrow, m->size);
    m->carry = a < b || (borrow && a == b);
    m->overflow = (a ^ b) & (a ^ difference) & top(m->size);
    note_result(m, difference);
    return difference;
}

// The eight operations of table A-2's upper left quarter and of group 1, in their order.
static uint64_t calculate(struct machine *m, int operation, uint64_t a, uint64_t b) {
    uint64_t result = a;
    b = cut(b, m->size);
    switch (operation) {
    case 0: return add(m, a, b, false);
    case 2: return add(m, a, b, m->carry);
    case 3: return subtract(m, a, b, m->carry);
    case 5:
    case 7: return subtract(m, a, b, false);
    case 1: result = a | b; break;
    case 4: result = a & b; break;
    case 6: result = a ^ b; break;
    }
    m->carry = m->overflow = false;
    note_result(m, result);
    return result;
}

// Group 2, but for the rotations through the carry.
static void shift(struct machine *m, int operation, uint64_t count) {
    uint64_t value = get_rm(m, m->size), result = value, bits = (uint64_t)m->size * 8;
    count &= m->size == 8 ? 63 : 31;
    if (!count) return;
    if (operation == 2 || operation == 3 || count >= bits) {
        m->is_lost = true;
        return;
    }
    switch (operation) {
    case 0: result = value << count | value >> (bits - count); break;
    case 1: result = value >> count | value << (bits - count); break;
    case 5: result = value >> count; break;
    case 7: result = (uint64_t)((int64_t)extend(value, m->size) >> count); break;
    default: result = value << count; break;
    }
    result = cut(result, m->size);
    set_rm(m, m->size, result);
    if (operation < 2) return; // rotations leave all but the carry and the overflow, which is not asked for behind them
    m->carry = operation == 4 || operation == 6 ? value >> (bits - count) & 1 : value >> (count - 1) & 1;
    note_result(m, result);
}

// Two registers, or a register and memory, shifted as one: shld, shrd.
static void shift_pair(struct machine *m, bool to_left, uint64_t count) {
    uint64_t value = get_rm(m, m->size), other = get(m, m->reg, m->size), bits = (uint64_t)m->size * 8;
    count &= m->size == 8 ? 63 : 31;
    if (!count || count >= bits) return; // of more than the operand has, the result is undefined
    uint64_t result = to_left ? value << count | other >> (bits - count) : value >> count | other << (bits - count);
    m->carry = to_left ? value >> (bits - count) & 1 : value >> (count - 1) & 1;
    note_result(m, result);
    set_rm(m, m->size, cut(result, m->size));
}

static bool holds(const struct machine *m, int condition) {
    bool result = false;
    switch (condition >> 1) {
    case 0: result = m->overflow; break;
    case 1: result = m->carry; break;
    case 2: result = m->zero; break;
    case 3: result = m->carry || m->zero; break;
    case 4: result = m->sign; break;
    case 6: result = m->sign != m->overflow; break;
    case 7: result = m->zero || m->sign != m->overflow; break;
    }
    return result != (condition & 1);
}

static void test_bit(struct machine *m, int operation, uint64_t number) {
    uint64_t value = get_rm(m, m->size), bit = UINT64_C(1) << (number & (uint64_t)(m->size * 8 - 1));
    if (m->mod != 3 && number >= (uint64_t)m->size * 8) m->is_lost = true; // of a bit string in memory
    m->carry = value & bit;
    if (operation == 1) set_rm(m, m->size, value | bit);
    if (operation == 2) set_rm(m, m->size, value & ~bit);
    if (operation == 3) set_rm(m, m->size, value ^ bit);
}

static void compare_exchange(struct machine *m) {
    uint64_t value = get_rm(m, m->size), expected = get(m, AX, m->size);
    subtract(m, expected, value, false);
    if (m->zero) set_rm(m, m->size, get(m, m->reg, m->size));
    else set(m, AX, m->size, value);
}

// cmpxchg8b and cmpxchg16b.
static void compare_exchange_pair(struct machine *m) {
    int half = m->rex & REX_W ? 8 : 4;
    uint64_t low = load(m, m->place, half), high = load(m, m->place + (uint64_t)half, half);
    m->zero = low == get(m, AX, half) && high == get(m, DX, half);
    if (m->zero) {
        store(m, m->place, half, m->r[BX]);
        store(m, m->place + (uint64_t)half, half, m->r[CX]);
    } else {
        set(m, AX, half, low);
        set(m, DX, half, high);
    }
}

static void multiply(struct machine *m, uint64_t a, uint64_t b) {
    set(m, m->reg, m->size, extend(a, m->size) * extend(b, m->size));
}

// --- instructions ----------------------------------------------------------------------------------------------------

// Moves of vectors, whole or in parts.
static bool move_vector(struct machine *m, uint8_t opcode) {
    bool is_store = opcode == 0x11 || opcode == 0x29 || opcode == 0x7f || opcode == 0xd6;
    bool is_integer = opcode == 0x6e || (opcode == 0x7e && !(m->prefixes & REPEAT));
    bool is_quarter = opcode <= 0x11 && m->prefixes & (REPEAT | REPEAT_NOT);
    bool is_half = opcode == 0xd6 || (opcode == 0x7e && m->prefixes & REPEAT);
    read_modrm(m, 0);
    if (is_quarter || ((opcode == 0x6f || opcode == 0x7f) && !(m->prefixes & (OPERAND_SIZE | REPEAT)))) return false;
    if (is_integer) {
        int size = m->rex & REX_W ? 8 : 4;
        if (opcode == 0x7e) {
            set_rm(m, size, m->vectors[m->reg][0]);
        } else {
            m->vectors[m->reg][0] = get_rm(m, size);
            m->vectors[m->reg][1] = 0;
        }
        return true;
    }
    int halves = is_half ? 1 : 2;
    for (int i = 0; i < halves; i++) {
        uint64_t place = m->place + (uint64_t)i * 8;
        if (is_store && m->mod == 3) m->vectors[m->rm][i] = m->vectors[m->reg][i];
        else if (is_store) store(m, place, 8, m->vectors[m->reg][i]);
        else m->vectors[m->reg][i] = m->mod == 3 ? m->vectors[m->rm][i] : load(m, place, 8);
    }
    if (is_half && !is_store) m->vectors[m->reg][1] = 0;
    if (is_half && is_store && m->mod == 3) m->vectors[m->rm][1] = 0;
    return true;
}

// Opcodes behind 0F. False: not one of those that are known.
static bool step_two(struct machine *m) {
    uint8_t opcode = next_byte(m);
    int behind = opcode == 0xba || opcode == 0xa4 || opcode == 0xac ? 1 : 0;
    switch (opcode) {
    case 0x10:
    case 0x11:
    case 0x28:
    case 0x29:
    case 0x6e:
    case 0x6f:
    case 0x7e:
    case 0x7f:
    case 0xd6: return move_vector(m, opcode);
    case 0x80 ... 0x8f: {
        uint64_t distance = immediate(m, 4);
        if (holds(m, opcode & 15)) m->pc += distance;
        return true;
    }
    }
    read_modrm(m, behind);
    if (opcode == 0xb0 || opcode == 0xc0) m->size = 1;
    switch (opcode) {
    case 0x0d:
    case 0x18:
    case 0x1e:
    case 0x1f: return true; // prefetch, endbr64, nop
    case 0x57:
    case 0xef: // xorps, pxor: as far as they clear
        m->vectors[m->reg][0] = m->vectors[m->reg][1] = 0;
        return m->mod == 3 && m->reg == m->rm;
    case 0x6c: // punpcklqdq
        m->vectors[m->reg][1] = m->mod == 3 ? m->vectors[m->rm][0] : load(m, m->place, 8);
        return m->prefixes & OPERAND_SIZE;
    case 0x40 ... 0x4f: {
        uint64_t value = get_rm(m, m->size);
        set(m, m->reg, m->size, holds(m, opcode & 15) ? value : get(m, m->reg, m->size));
        return (opcode & 14) != 10;
    }
    case 0x90 ... 0x9f: set_rm(m, 1, holds(m, opcode & 15)); return (opcode & 14) != 10;
    case 0xa3:
    case 0xab:
    case 0xb3:
    case 0xbb: test_bit(m, opcode >> 3 & 3, get(m, m->reg, m->size)); return true;
    case 0xba: test_bit(m, m->reg & 3, next_byte(m)); return (m->reg & 7) >= 4;
    case 0xa4:
    case 0xac: shift_pair(m, opcode == 0xa4, next_byte(m)); return m->size >= 4;
    case 0xa5:
    case 0xad: shift_pair(m, opcode == 0xa5, m->r[CX]); return m->size >= 4;
    case 0xaf: multiply(m, get(m, m->reg, m->size), get_rm(m, m->size)); return true;
    case 0xb0:
    case 0xb1: compare_exchange(m); return true;
    case 0xb6: set(m, m->reg, m->size, get_rm(m, 1)); return true;
    case 0xb7: set(m, m->reg, m->size, get_rm(m, 2)); return true;
    case 0xbe: set(m, m->reg, m->size, extend(get_rm(m, 1), 1)); return true;
    case 0xbf: set(m, m->reg, m->size, extend(get_rm(m, 2), 2)); return true;
    case 0xc0:
    case 0xc1: {
        uint64_t old = get_rm(m, m->size), sum = add(m, old, get(m, m->reg, m->size), false);
        set(m, m->reg, m->size, old);
        set_rm(m, m->size, sum);
        return true;
    }
    case 0xc7: compare_exchange_pair(m); return (m->reg & 7) == 1 && m->mod != 3;
    }
    return false;
}

// Group 5 and its relatives: what is in a register or in memory is counted, called, jumped to or pushed.
static bool step_group(struct machine *m, bool is_byte) {
    if (is_byte) m->size = 1;
    read_modrm(m, 0);
    bool carry = m->carry;
    int operation = m->reg & 7;
    if (operation >= 2 && is_byte) return false;
    if (operation < 2) {
        uint64_t value = get_rm(m, m->size);
        set_rm(m, m->size, operation ? subtract(m, value, 1, false) : add(m, value, 1, false));
        m->carry = carry;
        return true;
    }
    uint64_t value = get_rm(m, 8), back = m->pc + (uint64_t)m->at;
    if (operation == 6) {
        push(m, value);
        return true;
    }
    if (operation != 2 && operation != 4) return false;
    if (operation == 2) push(m, back);
    m->depth += operation == 2;
    m->pc = value - (uint64_t)m->at;
    return true;
}

// Group 3: test, not, neg.
static bool step_unary(struct machine *m, bool is_byte) {
    if (is_byte) m->size = 1;
    int behind = m->code[m->at] >> 3 & 6 ? 0 : m->size == 8 ? 4 : m->size;
    read_modrm(m, behind);
    uint64_t value = get_rm(m, m->size);
    switch (m->reg & 7) {
    case 0:
    case 1: calculate(m, 4, value, immediate_of_operand(m)); return true;
    case 2: set_rm(m, m->size, ~value); return true;
    case 3: set_rm(m, m->size, subtract(m, 0, value, false)); return true;
    }
    return false;
}

static bool step_arithmetic(struct machine *m, uint8_t opcode) {
    int operation = opcode >> 3 & 7, form = opcode & 7;
    if (!(form & 1)) m->size = 1;
    if (form >= 4) {
        uint64_t result = calculate(m, operation, get(m, AX, m->size), immediate_of_operand(m));
        if (operation != 7) set(m, AX, m->size, result);
        return true;
    }
    read_modrm(m, 0);
    uint64_t rm = get_rm(m, m->size), reg = get(m, m->reg, m->size);
    uint64_t result = calculate(m, operation, form < 2 ? rm : reg, form < 2 ? reg : rm);
    if (operation == 7) return true;
    if (form < 2) set_rm(m, m->size, result);
    else set(m, m->reg, m->size, result);
    return true;
}

static bool step_one(struct machine *m, uint8_t opcode) {
    int low = (opcode & 7) | (m->rex & REX_B ? 8 : 0);
    // The last bit says whether the operand is a byte.
    bool has_bytes = (opcode >= 0x80 && opcode <= 0x8b) || (opcode & 0xfe) == 0xa8 || (opcode & 0xfe) == 0xc6 ||
                     (opcode & 0xfe) == 0xc0 || (opcode & 0xfc) == 0xd0;
    if (has_bytes && !(opcode & 1)) m->size = 1;
    int operand_bytes = m->size == 8 ? 4 : m->size;
    switch (opcode) {
    case 0x50 ... 0x57: push(m, m->r[low]); return true;
    case 0x58 ... 0x5f: m->r[low] = pop(m); return true;
    case 0x63:
        read_modrm(m, 0);
        set(m, m->reg, m->size, extend(get_rm(m, 4), 4));
        return true;
    case 0x68: push(m, immediate(m, 4)); return true;
    case 0x6a: push(m, immediate(m, 1)); return true;
    case 0x69:
    case 0x6b: {
        int bytes = opcode == 0x6b ? 1 : operand_bytes;
        read_modrm(m, bytes);
        uint64_t value = get_rm(m, m->size);
        multiply(m, value, immediate(m, bytes));
        return true;
    }
    case 0x70 ... 0x7f: {
        uint64_t distance = immediate(m, 1);
        if (holds(m, opcode & 15)) m->pc += distance;
        return (opcode & 14) != 10; // by parity
    }
    case 0x80:
    case 0x81:
    case 0x83: {
        int bytes = opcode == 0x81 ? operand_bytes : 1;
        read_modrm(m, bytes);
        uint64_t value = get_rm(m, m->size), result = calculate(m, m->reg & 7, value, immediate(m, bytes));
        if ((m->reg & 7) != 7) set_rm(m, m->size, result);
        return true;
    }
    case 0x84:
    case 0x85:
        read_modrm(m, 0);
        calculate(m, 4, get_rm(m, m->size), get(m, m->reg, m->size));
        return true;
    case 0x86:
    case 0x87: {
        read_modrm(m, 0);
        uint64_t value = get_rm(m, m->size);
        set_rm(m, m->size, get(m, m->reg, m->size));
        set(m, m->reg, m->size, value);
        return true;
    }
    case 0x88:
    case 0x89:
        read_modrm(m, 0);
        set_rm(m, m->size, get(m, m->reg, m->size));
        return true;
    case 0x8a:
    case 0x8b:
        read_modrm(m, 0);
        set(m, m->reg, m->size, get_rm(m, m->size));
        return true;
    case 0x8d:
        m->prefixes &= (uint8_t)~THREAD_SEGMENT;
        read_modrm(m, 0);
        set(m, m->reg, m->size, m->place);
        return m->mod != 3;
    case 0x90: return !(m->rex & REX_B); // also pause
    case 0x98: set(m, AX, m->size, extend(m->r[AX], m->size / 2)); return true;
    case 0x99: set(m, DX, m->size, get(m, AX, m->size) & top(m->size) ? ~UINT64_C(0) : 0); return true;
    case 0xa8:
    case 0xa9: calculate(m, 4, get(m, AX, m->size), immediate_of_operand(m)); return true;
    case 0xb0 ... 0xb7: set(m, low, 1, immediate(m, 1)); return true;
    case 0xb8 ... 0xbf: set(m, low, m->size, immediate(m, m->size)); return true;
    case 0xc0:
    case 0xc1:
        read_modrm(m, 1);
        shift(m, m->reg & 7, next_byte(m));
        return true;
    case 0xd0:
    case 0xd1:
        read_modrm(m, 0);
        shift(m, m->reg & 7, 1);
        return true;
    case 0xd2:
    case 0xd3:
        read_modrm(m, 0);
        shift(m, m->reg & 7, m->r[CX] & 0xff);
        return true;
    case 0xc3:
        m->pc = pop(m) - (uint64_t)m->at;
        m->depth--;
        return true;
    case 0xc6:
    case 0xc7: {
        int bytes = m->size == 8 ? 4 : m->size;
        read_modrm(m, bytes);
        set_rm(m, m->size, immediate(m, bytes));
        return (m->reg & 7) == 0;
    }
    case 0xc9:
        m->r[SP] = m->r[BP];
        m->r[BP] = pop(m);
        return true;
    case 0xe8: {
        uint64_t distance = immediate(m, 4);
        push(m, m->pc + (uint64_t)m->at);
        m->pc += distance;
        m->depth++;
        return true;
    }
    case 0xe9: m->pc += immediate(m, 4); return true;
    case 0xeb: m->pc += immediate(m, 1); return true;
    case 0xf6:
    case 0xf7: return step_unary(m, opcode == 0xf6);
    case 0xfe:
    case 0xff: return step_group(m, opcode == 0xfe);
    }
    return false;
}

static void read_prefixes(struct machine *m) {
    for (;; m->at++) {
        switch (m->code[m->at]) {
        case 0x66: m->prefixes |= OPERAND_SIZE; continue;
        case 0xf3: m->prefixes |= REPEAT; continue;
        case 0xf2: m->prefixes |= REPEAT_NOT; continue;
        case 0x64: m->prefixes |= THREAD_SEGMENT; continue;
        case 0x65:
        case 0x67: m->is_lost = true; continue;
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0xf0: continue;
        }
        break;
    }
    if ((m->code[m->at] & 0xf0) == 0x40) m->rex = m->code[m->at++];
    m->size = m->rex & REX_W ? 8 : m->prefixes & OPERAND_SIZE ? 2 : 4;
}

static void step(struct machine *m) {
    m->at = 0;
    m->prefixes = m->rex = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t word = load(m, m->pc + (uint64_t)i * 8, 8);
        __builtin_memcpy(m->code + i * 8, &word, sizeof word);
    }
    __builtin_memset(m->code + 16, 0, sizeof m->code - 16);
    read_prefixes(m);
    uint8_t opcode = next_byte(m);
    bool is_known = opcode == 0x0f                      ? step_two(m)
                    : opcode < 0x40 && (opcode & 7) < 6 ? step_arithmetic(m, opcode)
                                                        : step_one(m, opcode);
    if (!is_known) m->is_lost = true;
    m->pc += (uint64_t)m->at;
}

enum zg_followed zg_arch_follow(const struct zg_registers *registers, const struct zg_arch_memory *memory, int most) {
    // DWARF's order to the processor's.
    static const uint8_t processor[16] = {AX, DX, CX, BX, 6, 7, BP, SP, 8, 9, 10, 11, 12, 13, 14, 15};
    struct machine m = {.memory = memory, .pc = registers->pc};
    for (int i = 0; i < 16; i++) m.r[processor[i]] = registers->value[i];
    for (int i = 0; i < most; i++) {
        step(&m);
        if (m.is_lost) return zg_followed_lost;
        if (m.is_stopped) return zg_followed_stopped;
        if (m.depth < 0) return zg_followed_return;
    }
    return zg_followed_lost;
}

#endif
