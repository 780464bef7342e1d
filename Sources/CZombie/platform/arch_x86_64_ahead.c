// x86-64 code that is followed to see what it does with an object: instructions that compilers make of Swift, over registers and
// memory of which some is known. Encodings: volume 2 of Intel's manual (SDM). Where Swift passes self (r13) and errors (r12):
// docs/ABI/RegisterUsage.md of Swift.
// Signal context; pure, no lock.

#if defined(__x86_64__)

#include "platform/ahead_machine.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };
enum { CARRY = 1, PARITY = 2, ZERO = 4, SIGN = 8, OVERFLOW = 16, ALL_FLAGS = 31 };

enum end { goes_on, ends, is_dead_end }; // a dead end: the program stops there

static bool push(struct zg_ahead_machine *m, struct zg_known value) {
    m->registers[RSP].bits -= 8;
    return zg_ahead_store(m, m->registers[RSP], 8, value);
}
static bool pop(struct zg_ahead_machine *m, struct zg_known *value) {
    bool good = zg_ahead_load(m, m->registers[RSP], 8, value);
    m->registers[RSP].bits += 8;
    return good;
}

// --- instructions ------------------------------------------------------------------------------------------------------

struct instruction {
    uint8_t bytes[16], rex;
    int count, at; // bytes that could be read; how many are used up
    bool has_66, has_f2, has_f3, is_locked, in_thread, in_segment;
    int width; // of operands, in bytes
    int reg;   // the ModRM byte's reg field, extended
    bool in_memory;
    int rm;                  // register, where the operand is one
    struct zg_known address; // where it is in memory
    // Where it leads to, with zg_ahead_next: behind it.
    enum zg_ahead_step step;
    struct zg_ahead_target target;
};

static uint8_t next_byte(struct instruction *it) {
    return it->at < 15 ? it->bytes[it->at++] : (it->at = 16, (uint8_t)0);
}
static int64_t immediate(struct instruction *it, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)next_byte(it) << 8 * i;
    int spare = 64 - 8 * bytes;
    return (int64_t)(value << spare) >> spare;
}

// Whoever reads r13 is given something in it; who only saves it is not.
static struct zg_known read_register(struct zg_ahead_machine *m, int number) {
    m->used |= 1u << number;
    return m->registers[number];
}

// ModRM, SIB and displacement. `after`: bytes of the instruction behind them, for what is counted from its end.
static void read_operand(struct zg_ahead_machine *m, struct instruction *it, int after) {
    uint8_t modrm = next_byte(it), mod = modrm >> 6;
    it->reg = (modrm >> 3 & 7) | (it->rex & 4) << 1;
    it->rm = (modrm & 7) | (it->rex & 1) << 3;
    it->in_memory = mod != 3;
    if (!it->in_memory) return;
    struct zg_known address = zg_known_word(0);
    int distance_bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    bool from_pc = false;
    if ((modrm & 7) == 4) {
        uint8_t sib = next_byte(it);
        int index = (sib >> 3 & 7) | (it->rex & 2) << 2, base = (sib & 7) | (it->rex & 1) << 3;
        if (index != RSP) {
            struct zg_known value = read_register(m, index);
            address = zg_known_is_whole(value) ? zg_known_word(value.bits << (sib >> 6)) : zg_known_none();
        }
        if (mod == 0 && (sib & 7) == 5) distance_bytes = 4;
        else address = zg_known_sum(address, read_register(m, base));
    } else if (mod == 0 && (modrm & 7) == 5) {
        from_pc = true, distance_bytes = 4;
    } else {
        address = read_register(m, it->rm);
    }
    if (distance_bytes) address = zg_known_sum(address, zg_known_word((uint64_t)immediate(it, distance_bytes)));
    if (from_pc) address = zg_known_word(address.bits + m->pc + (uint64_t)(it->at + after));
    if (it->in_thread) address = zg_known_sum(address, zg_known_word(m->found.thread));
    it->address = it->in_segment || (it->in_thread && !m->found.thread) ? zg_known_none() : address;
}

static struct zg_known get_register(struct zg_ahead_machine *m, const struct instruction *it, int number, int bytes) {
    struct zg_known value = read_register(m, number);
    if (bytes == 1 && !it->rex && number >= 4 && number < 8) {
        value = m->registers[number - 4];
        value.bits >>= 8, value.known >>= 8;
    }
    uint64_t mask = zg_known_mask(bytes);
    return (struct zg_known){value.bits & mask, value.known | ~mask};
}

static void set_register(struct zg_ahead_machine *m, const struct instruction *it, int number, int bytes,
                         struct zg_known value) {
    uint64_t mask = zg_known_mask(bytes);
    int shift = 0;
    if (bytes == 1 && !it->rex && number >= 4 && number < 8) number -= 4, shift = 8;
    struct zg_known *to = &m->registers[number];
    value.bits &= mask;
    value.known |= ~mask;
    if (bytes >= 4) {
        *to = value;
        return;
    }
    to->bits = (to->bits & ~(mask << shift)) | value.bits << shift;
    to->known = (to->known & ~(mask << shift)) | (value.known & mask) << shift;
}

static bool get_operand(struct zg_ahead_machine *m, const struct instruction *it, int bytes, struct zg_known *value) {
    if (it->in_memory) return zg_ahead_load(m, it->address, bytes, value);
    *value = get_register(m, it, it->rm, bytes);
    return true;
}
static bool set_operand(struct zg_ahead_machine *m, const struct instruction *it, int bytes, struct zg_known value) {
    if (it->in_memory) return zg_ahead_store(m, it->address, bytes, value);
    set_register(m, it, it->rm, bytes, value);
    return true;
}

static void set_flags(struct zg_ahead_machine *m, uint64_t result, int bytes, bool carry, bool overflow) {
    result &= zg_known_mask(bytes);
    m->known_flags = ALL_FLAGS;
    m->flags =
        (uint8_t)((carry ? CARRY : 0) | (result ? 0 : ZERO) | (overflow ? OVERFLOW : 0) |
                  (result >> (8 * bytes - 1) ? SIGN : 0) | (__builtin_popcount((uint8_t)result) & 1 ? 0 : PARITY));
}

// add or adc sbb and sub xor cmp, as group 1 numbers them.
enum { ADD, OR, ADC, SBB, AND, SUB, XOR, CMP };
static struct zg_known compute(struct zg_ahead_machine *m, int operation, struct zg_known a, struct zg_known b,
                               int bytes) {
    uint64_t mask = zg_known_mask(bytes), sign = UINT64_C(1) << (8 * bytes - 1);
    struct zg_known result = zg_known_none();
    m->known_flags = 0;
    a.bits &= mask, b.bits &= mask, a.known |= ~mask, b.known |= ~mask;
    if (operation == AND) {
        result.bits = a.bits & b.bits;
        result.known = (a.known & b.known) | (a.known & ~a.bits) | (b.known & ~b.bits);
    } else if (operation == OR) {
        result.bits = a.bits | b.bits;
        result.known = (a.known & b.known) | (a.known & a.bits) | (b.known & b.bits);
    } else if (operation == XOR) {
        result = (struct zg_known){a.bits ^ b.bits, a.known & b.known};
    } else if (zg_known_is_whole(a) && zg_known_is_whole(b) && operation != ADC && operation != SBB) {
        bool adds = operation == ADD;
        result = zg_known_word((adds ? a.bits + b.bits : a.bits - b.bits) & mask);
        bool overflow = (adds ? ~(a.bits ^ b.bits) : a.bits ^ b.bits) & (a.bits ^ result.bits) & sign;
        set_flags(m, result.bits, bytes, adds ? result.bits < a.bits : a.bits < b.bits, overflow);
        return result;
    }
    result.bits &= result.known;
    if (operation == AND || operation == OR || operation == XOR) {
        if (zg_known_is_whole(result)) set_flags(m, result.bits, bytes, false, false);
        else if (result.bits & result.known & mask) m->known_flags = ZERO, m->flags = 0;
    }
    return result;
}

// Conditions as jcc, setcc and cmovcc number them. False: it is not known.
static bool condition(const struct zg_ahead_machine *m, int number, bool *holds) {
    static const uint8_t needed[8] = {
        OVERFLOW, CARRY, ZERO, CARRY | ZERO, SIGN, PARITY, SIGN | OVERFLOW, SIGN | OVERFLOW | ZERO};
    uint8_t flags = m->flags;
    bool is_less = !(flags & SIGN) != !(flags & OVERFLOW);
    if ((m->known_flags & needed[number >> 1]) != needed[number >> 1]) return false;
    switch (number >> 1) {
    case 6: *holds = is_less; break;
    case 7: *holds = is_less || flags & ZERO; break;
    default: *holds = flags & needed[number >> 1];
    }
    if (number & 1) *holds = !*holds;
    return true;
}

// --- vectors -----------------------------------------------------------------------------------------------------------

static bool load_vector(struct zg_ahead_machine *m, const struct instruction *it, int bytes, struct zg_known to[2]) {
    to[0] = to[1] = zg_known_word(0);
    if (!it->in_memory) {
        to[0] = m->vectors[it->rm][0], to[1] = m->vectors[it->rm][1];
        return true;
    }
    if (!zg_ahead_load(m, it->address, bytes > 8 ? 8 : bytes, &to[0])) return false;
    return bytes <= 8 || zg_ahead_load(m, zg_known_sum(it->address, zg_known_word(8)), 8, &to[1]);
}

static bool store_vector(struct zg_ahead_machine *m, const struct instruction *it, int bytes) {
    const struct zg_known *from = m->vectors[it->reg];
    if (!it->in_memory) {
        m->vectors[it->rm][0] = from[0];
        if (bytes > 8) m->vectors[it->rm][1] = from[1];
        return true;
    }
    if (!zg_ahead_store(m, it->address, bytes > 8 ? 8 : bytes, from[0])) return false;
    return bytes <= 8 || zg_ahead_store(m, zg_known_sum(it->address, zg_known_word(8)), 8, from[1]);
}

// --- opcodes -----------------------------------------------------------------------------------------------------------

static enum end execute_0f(struct zg_ahead_machine *m, struct instruction *it) {
    uint8_t opcode = next_byte(it);
    struct zg_known a, b, pair[2];
    int scalar = it->has_f3 ? 4 : it->has_f2 ? 8 : 16;
    bool holds;
    if (opcode == 0x0b) return is_dead_end; // ud2
    if (opcode == 0x38 || opcode == 0x3a) {
        uint8_t last = next_byte(it);
        read_operand(m, it, opcode == 0x3a);
        if (opcode == 0x3a) next_byte(it);
        if (last >= 0xf0 || (opcode == 0x3a && last >= 0x14 && last <= 0x17)) return ends;
        if (!load_vector(m, it, 16, pair)) return ends;
        m->vectors[it->reg][0] = m->vectors[it->reg][1] = zg_known_none();
        m->known_flags = 0;
        return goes_on;
    }
    if (opcode >= 0xc8 && opcode <= 0xcf) {
        int number = (opcode & 7) | (it->rex & 1) << 3;
        m->registers[number] = zg_known_none();
        return goes_on;
    }
    if (opcode == 0x31) { // rdtsc
        m->registers[RAX] = m->registers[RDX] = zg_known_none();
        return goes_on;
    }
    bool has_immediate = opcode == 0x70 || opcode == 0xc2 || opcode == 0xc6 || opcode == 0xc4 || opcode == 0xc5 ||
                         opcode == 0xa4 || opcode == 0xac || opcode == 0xba || (opcode >= 0x71 && opcode <= 0x73);
    if (opcode < 0x0d || (opcode > 0x2f && opcode < 0x40) || opcode == 0x77 || opcode == 0xa2 || opcode == 0xaa ||
        opcode == 0xae || opcode == 0xc7)
        return ends;
    read_operand(m, it, has_immediate);
    if (has_immediate) next_byte(it);
    if (it->at > it->count) return ends;
    switch (opcode) {
    case 0x0d:
    case 0x18 ... 0x1f: return goes_on; // hints
    case 0x10:
    case 0x28:
    case 0x6f:
        if (!load_vector(m, it, opcode == 0x10 ? scalar : 16, pair)) return ends;
        m->vectors[it->reg][0] = pair[0];
        if (it->in_memory || opcode != 0x10 || scalar == 16) m->vectors[it->reg][1] = pair[1];
        return goes_on;
    case 0x11:
    case 0x29:
    case 0x2b:
    case 0x7f:
    case 0xe7: return store_vector(m, it, opcode == 0x11 ? scalar : 16) ? goes_on : ends;
    case 0x13:
    case 0x17:
        return zg_ahead_store(m, it->in_memory ? it->address : zg_known_none(), 8, zg_known_none()) ? goes_on : ends;
    case 0xd6: return store_vector(m, it, 8) ? goes_on : ends;
    case 0x6e:
        if (!get_operand(m, it, it->width == 8 ? 8 : 4, &a)) return ends;
        m->vectors[it->reg][0] = a, m->vectors[it->reg][1] = zg_known_word(0);
        return goes_on;
    case 0x7e:
        if (it->has_f3) {
            if (!load_vector(m, it, 8, pair)) return ends;
            m->vectors[it->reg][0] = pair[0], m->vectors[it->reg][1] = zg_known_word(0);
            return goes_on;
        }
        return set_operand(m, it, it->width == 8 ? 8 : 4, m->vectors[it->reg][0]) ? goes_on : ends;
    case 0x2c:
    case 0x2d:
    case 0x50:
    case 0xc5:
    case 0xd7:
        if (it->in_memory && !zg_ahead_load(m, it->address, 8, &a)) return ends;
        set_register(m, it, it->reg, 8, zg_known_none());
        return goes_on;
    case 0x2e:
    case 0x2f:
        if (it->in_memory && !zg_ahead_load(m, it->address, 4, &a)) return ends;
        m->known_flags = 0;
        return goes_on;
    case 0x40 ... 0x4f:
        if (!get_operand(m, it, it->width, &a)) return ends;
        if (!condition(m, opcode & 15, &holds)) a = zg_known_none();
        else if (!holds) a = get_register(m, it, it->reg, it->width);
        set_register(m, it, it->reg, it->width, a);
        return goes_on;
    case 0x90 ... 0x9f:
        return set_operand(m, it, 1, condition(m, opcode & 15, &holds) ? zg_known_word(holds) : zg_known_none())
                   ? goes_on
                   : ends;
    case 0xaf:
        if (!get_operand(m, it, it->width, &b)) return ends;
        a = get_register(m, it, it->reg, it->width);
        set_register(m, it, it->reg, it->width,
                     zg_known_is_whole(a) && zg_known_is_whole(b) ? zg_known_word(a.bits * b.bits) : zg_known_none());
        m->known_flags = 0;
        return goes_on;
    case 0xb6:
    case 0xb7:
    case 0xbe:
    case 0xbf: {
        int bytes = opcode & 1 ? 2 : 1, spare = 64 - 8 * bytes;
        if (!get_operand(m, it, bytes, &a)) return ends;
        if (opcode >= 0xbe && zg_known_is_whole(a)) a = zg_known_word((uint64_t)((int64_t)(a.bits << spare) >> spare));
        else if (opcode >= 0xbe) a = zg_known_none();
        set_register(m, it, it->reg, it->width, a);
        return goes_on;
    }
    case 0xb0:
    case 0xb1:
    case 0xc0:
    case 0xc1: { // cmpxchg, xadd
        int bytes = opcode & 1 ? it->width : 1;
        if (!get_operand(m, it, bytes, &a)) return ends;
        b = get_register(m, it, it->reg, bytes);
        if (opcode >= 0xc0) {
            set_register(m, it, it->reg, bytes, a);
            return set_operand(m, it, bytes, compute(m, ADD, a, b, bytes)) ? goes_on : ends;
        }
        compute(m, CMP, get_register(m, it, RAX, bytes), a, bytes);
        if (!condition(m, 4, &holds)) {
            set_register(m, it, RAX, bytes, zg_known_none());
            return set_operand(m, it, bytes, zg_known_none()) ? goes_on : ends;
        }
        if (holds) return set_operand(m, it, bytes, b) ? goes_on : ends;
        set_register(m, it, RAX, bytes, a);
        return goes_on;
    }
    case 0xa3: // bt
    case 0xba:
        if (opcode == 0xba && (it->reg & 7) != 4 && !set_operand(m, it, it->width, zg_known_none())) return ends;
        m->known_flags = 0;
        return goes_on;
    case 0xa4:
    case 0xa5:
    case 0xab:
    case 0xac:
    case 0xad:
    case 0xb3:
    case 0xbb: m->known_flags = 0; return set_operand(m, it, it->width, zg_known_none()) ? goes_on : ends;
    case 0xb8:
    case 0xbc:
    case 0xbd:
        if (!get_operand(m, it, it->width, &a)) return ends;
        set_register(m, it, it->reg, it->width, zg_known_none());
        m->known_flags = 0;
        return goes_on;
    case 0xc3: return set_operand(m, it, it->width, get_register(m, it, it->reg, it->width)) ? goes_on : ends;
    case 0x57:
    case 0xef: // xor
        if (!it->in_memory && it->rm == it->reg) {
            m->vectors[it->reg][0] = m->vectors[it->reg][1] = zg_known_word(0);
            return goes_on;
        }
        break;
    }
    if (opcode >= 0x80 && opcode <= 0x8f) return ends; // read elsewhere
    bool is_arithmetic = (opcode >= 0x12 && opcode <= 0x16) || opcode == 0x2a || (opcode >= 0x51 && opcode <= 0x76) ||
                         opcode == 0x7c || opcode == 0x7d || opcode == 0xc2 || opcode == 0xc4 || opcode == 0xc6 ||
                         opcode >= 0xd0;
    if (!is_arithmetic) return ends;
    if (it->in_memory && !zg_ahead_load(m, it->address, 8, &a)) return ends;
    m->vectors[it->reg][0] = m->vectors[it->reg][1] = zg_known_none();
    if (opcode >= 0x71 && opcode <= 0x73) m->vectors[it->rm][0] = m->vectors[it->rm][1] = zg_known_none();
    return goes_on;
}

static struct zg_known shifted(struct zg_ahead_machine *m, int operation, struct zg_known a, struct zg_known by,
                               int bytes) {
    m->known_flags = 0;
    uint64_t count = by.bits & (bytes == 8 ? 63 : 31);
    if (!zg_known_is_whole(a) || !zg_known_is_whole(by)) return zg_known_none();
    int spare = 64 - 8 * bytes;
    switch (operation) {
    case 4:
    case 6: a.bits <<= count; break;
    case 5: a.bits = (a.bits & zg_known_mask(bytes)) >> count; break;
    case 7: a.bits = (uint64_t)((int64_t)(a.bits << spare) >> spare >> count); break;
    default: return zg_known_none();
    }
    if (count) set_flags(m, a.bits, bytes, false, false), m->known_flags = ZERO | SIGN;
    return a;
}

static enum end lead(struct instruction *it, enum zg_ahead_step step, struct zg_known code) {
    it->step = step;
    it->target.code = code;
    return goes_on;
}

// The instruction at the pc; jcc is left to the caller.
static enum end execute(struct zg_ahead_machine *m, struct instruction *it, uint8_t opcode, uint64_t start) {
    struct zg_known a, b;
    int bytes = opcode & 1 ? it->width : 1;
    if (opcode < 0x40 && (opcode & 7) < 6) {
        int operation = opcode >> 3;
        if (opcode & 4) {
            b = zg_known_word((uint64_t)immediate(it, bytes > 4 ? 4 : bytes));
            a = compute(m, operation, get_register(m, it, RAX, bytes), b, bytes);
            if (operation != CMP) set_register(m, it, RAX, bytes, a);
            return goes_on;
        }
        read_operand(m, it, 0);
        if (!get_operand(m, it, bytes, &a)) return ends;
        b = get_register(m, it, it->reg, bytes);
        bool is_same = !it->in_memory && it->rm == it->reg;
        if (is_same && (operation == XOR || operation == SUB)) a = b = zg_known_word(0);
        bool to_register = opcode & 2;
        a = to_register ? compute(m, operation, b, a, bytes) : compute(m, operation, a, b, bytes);
        if (operation == CMP) return goes_on;
        if (!to_register) return set_operand(m, it, bytes, a) ? goes_on : ends;
        set_register(m, it, it->reg, bytes, a);
        return goes_on;
    }
    switch (opcode) {
    case 0x0f: return execute_0f(m, it);
    case 0x50 ... 0x57: return push(m, m->registers[(opcode & 7) | (it->rex & 1) << 3]) ? goes_on : ends;
    case 0x58 ... 0x5f:
        if (!pop(m, &a)) return ends;
        m->registers[(opcode & 7) | (it->rex & 1) << 3] = a;
        return goes_on;
    case 0x63:
        read_operand(m, it, 0);
        if (!get_operand(m, it, 4, &a)) return ends;
        a = zg_known_is_whole(a) ? zg_known_word((uint64_t)(int64_t)(int32_t)a.bits) : zg_known_none();
        set_register(m, it, it->reg, it->width, a);
        return goes_on;
    case 0x68: return push(m, zg_known_word((uint64_t)immediate(it, 4))) ? goes_on : ends;
    case 0x6a: return push(m, zg_known_word((uint64_t)immediate(it, 1))) ? goes_on : ends;
    case 0x69:
    case 0x6b: {
        int size = opcode == 0x6b ? 1 : it->width == 2 ? 2 : 4;
        read_operand(m, it, size);
        if (!get_operand(m, it, it->width, &a)) return ends;
        b = zg_known_word((uint64_t)immediate(it, size));
        set_register(m, it, it->reg, it->width,
                     zg_known_is_whole(a) ? zg_known_word(a.bits * b.bits) : zg_known_none());
        m->known_flags = 0;
        return goes_on;
    }
    case 0x80:
    case 0x81:
    case 0x83: {
        int size = opcode == 0x81 ? (it->width == 2 ? 2 : 4) : 1;
        read_operand(m, it, size);
        if (!get_operand(m, it, bytes, &a)) return ends;
        int operation = it->reg & 7;
        a = compute(m, operation, a, zg_known_word((uint64_t)immediate(it, size)), bytes);
        return operation == CMP || set_operand(m, it, bytes, a) ? goes_on : ends;
    }
    case 0x84:
    case 0x85:
        read_operand(m, it, 0);
        if (!get_operand(m, it, bytes, &a)) return ends;
        compute(m, AND, a, get_register(m, it, it->reg, bytes), bytes);
        return goes_on;
    case 0x86:
    case 0x87:
        read_operand(m, it, 0);
        if (!get_operand(m, it, bytes, &a)) return ends;
        b = get_register(m, it, it->reg, bytes);
        if (!set_operand(m, it, bytes, b)) return ends;
        set_register(m, it, it->reg, bytes, a);
        return goes_on;
    case 0x88:
    case 0x89:
        read_operand(m, it, 0);
        return set_operand(m, it, bytes, get_register(m, it, it->reg, bytes)) ? goes_on : ends;
    case 0x8a:
    case 0x8b:
        read_operand(m, it, 0);
        if (!get_operand(m, it, bytes, &a)) return ends;
        set_register(m, it, it->reg, bytes, a);
        return goes_on;
    case 0x8d:
        read_operand(m, it, 0);
        set_register(m, it, it->reg, it->width, it->address);
        return goes_on;
    case 0x90: return goes_on;
    case 0x98:
        a = get_register(m, it, RAX, it->width / 2);
        if (it->width == 8)
            a = zg_known_is_whole(a) ? zg_known_word((uint64_t)(int64_t)(int32_t)a.bits) : zg_known_none();
        else a = zg_known_none();
        set_register(m, it, RAX, it->width, a);
        return goes_on;
    case 0x99: m->registers[RDX] = zg_known_none(); return goes_on;
    case 0xa8:
    case 0xa9:
        b = zg_known_word((uint64_t)immediate(it, bytes > 4 ? 4 : bytes));
        compute(m, AND, get_register(m, it, RAX, bytes), b, bytes);
        return goes_on;
    case 0xb0 ... 0xb7:
        set_register(m, it, (opcode & 7) | (it->rex & 1) << 3, 1, zg_known_word((uint64_t)immediate(it, 1)));
        return goes_on;
    case 0xb8 ... 0xbf:
        a = zg_known_word((uint64_t)immediate(it, it->width));
        set_register(m, it, (opcode & 7) | (it->rex & 1) << 3, it->width, a);
        return goes_on;
    case 0xc0:
    case 0xc1:
    case 0xd0 ... 0xd3: {
        bool is_immediate = opcode < 0xd0;
        read_operand(m, it, is_immediate);
        if (!get_operand(m, it, bytes, &a)) return ends;
        b = is_immediate ? zg_known_word((uint8_t)immediate(it, 1))
            : opcode & 2 ? get_register(m, it, RCX, 1)
                         : zg_known_word(1);
        return set_operand(m, it, bytes, shifted(m, it->reg & 7, a, b, bytes)) ? goes_on : ends;
    }
    case 0xc2:
    case 0xc3: {
        uint64_t more = opcode == 0xc2 ? (uint16_t)immediate(it, 2) : 0;
        if (!pop(m, &a)) return ends;
        m->registers[RSP].bits += more;
        return lead(it, zg_ahead_returns, a);
    }
    case 0xc6:
    case 0xc7: {
        int size = opcode == 0xc6 ? 1 : it->width == 2 ? 2 : 4;
        read_operand(m, it, size);
        return set_operand(m, it, bytes, zg_known_word((uint64_t)immediate(it, size))) ? goes_on : ends;
    }
    case 0xc9:
        m->registers[RSP] = m->registers[RBP];
        if (!zg_known_is_whole(m->registers[RSP]) || !pop(m, &a)) return ends;
        m->registers[RBP] = a;
        return goes_on;
    case 0xcc: return is_dead_end;
    case 0xe8: {
        uint64_t distance = (uint64_t)immediate(it, 4), next = start + (uint64_t)it->at;
        return lead(it, zg_ahead_calls, zg_known_word(next + distance));
    }
    case 0xe9:
    case 0xeb: {
        uint64_t distance = (uint64_t)immediate(it, opcode == 0xe9 ? 4 : 1);
        it->target.may_be_call = opcode == 0xe9;
        return lead(it, zg_ahead_jumps, zg_known_word(start + (uint64_t)it->at + distance));
    }
    case 0xf6:
    case 0xf7: {
        int operation = it->bytes[it->at] >> 3 & 7, size = operation > 1 ? 0 : bytes > 4 ? 4 : bytes;
        read_operand(m, it, size);
        if (!get_operand(m, it, bytes, &a)) return ends;
        if (operation < 2) {
            compute(m, AND, a, zg_known_word((uint64_t)immediate(it, size)), bytes);
            return goes_on;
        }
        if (operation == 2) return set_operand(m, it, bytes, (struct zg_known){~a.bits, a.known}) ? goes_on : ends;
        if (operation == 3)
            return set_operand(m, it, bytes, compute(m, SUB, zg_known_word(0), a, bytes)) ? goes_on : ends;
        m->registers[RAX] = m->registers[RDX] = zg_known_none();
        m->known_flags = 0;
        return goes_on;
    }
    case 0xfe:
    case 0xff: {
        read_operand(m, it, 0);
        int operation = it->reg & 7;
        if (operation == 3 || operation == 5 || operation == 7 || (opcode == 0xfe && operation > 1)) return ends;
        if (!get_operand(m, it, operation > 1 ? 8 : bytes, &a)) return ends;
        if (operation <= 1) {
            uint8_t flags = m->flags, known_flags = m->known_flags;
            a = compute(m, operation ? SUB : ADD, a, zg_known_word(1), bytes);
            m->flags = (uint8_t)((m->flags & ~CARRY) | (flags & CARRY)); // it stays as it was
            m->known_flags = (uint8_t)((m->known_flags & ~CARRY) | (known_flags & CARRY));
            return set_operand(m, it, bytes, a) ? goes_on : ends;
        }
        if (operation == 2) return lead(it, zg_ahead_calls, a);
        if (operation == 6) return push(m, a) ? goes_on : ends;
        it->target.may_be_call = true;
        it->target.place = it->in_memory && zg_known_is_whole(it->address) ? it->address.bits : 0;
        return lead(it, zg_ahead_jumps, a);
    }
    }
    return ends;
}

static uint8_t read_prefixes(struct instruction *it) {
    uint8_t opcode = next_byte(it);
    for (bool is_prefix = true; is_prefix && it->at <= it->count;) {
        switch (opcode) {
        case 0x66: it->has_66 = true; break;
        case 0xf2: it->has_f2 = true; break;
        case 0xf3: it->has_f3 = true; break;
        case 0xf0: it->is_locked = true; break;
        case 0x64: it->in_thread = true; break; // fs: the thread pointer
        case 0x65: it->in_segment = true; break;
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0x26: break;
        default: is_prefix = false;
        }
        if (is_prefix) opcode = next_byte(it);
    }
    if ((opcode & 0xf0) == 0x40) it->rex = opcode, opcode = next_byte(it);
    it->width = it->rex & 8 ? 8 : it->has_66 ? 2 : 4;
    return opcode;
}

enum zg_ahead_step zg_arch_ahead_step(struct zg_ahead_machine *m, const uint8_t *code, int count,
                                      struct zg_ahead_target *target) {
    struct instruction it = {.count = count < ZG_AHEAD_CODE ? count : ZG_AHEAD_CODE, .width = 4, .step = zg_ahead_next};
    __builtin_memcpy(it.bytes, code, (uint64_t)it.count);
    uint8_t opcode = read_prefixes(&it);
    uint64_t start = m->pc;
    bool is_near_jcc = opcode == 0x0f && (it.bytes[it.at] & 0xf0) == 0x80;
    if ((opcode & 0xf0) == 0x70 || is_near_jcc) {
        uint8_t number = is_near_jcc ? next_byte(&it) & 15 : opcode & 15;
        uint64_t distance = (uint64_t)immediate(&it, is_near_jcc ? 4 : 1), next = start + (uint64_t)it.at;
        bool holds = false;
        if (it.at > it.count) return zg_ahead_ends;
        bool is_told = condition(m, number, &holds);
        *target = (struct zg_ahead_target){.code = zg_known_word(next + distance)};
        m->pc = holds ? next + distance : next;
        return is_told ? zg_ahead_next : zg_ahead_forks;
    }
    enum end end = execute(m, &it, opcode, start);
    if (it.at > it.count || end == ends) return zg_ahead_ends;
    if (end == is_dead_end) return zg_ahead_dead_end;
    m->pc = start + (uint64_t)it.at;
    *target = it.target;
    return it.step;
}

bool zg_arch_ahead_link(struct zg_ahead_machine *m, uint64_t return_address) {
    return push(m, zg_known_word(return_address));
}

uint64_t zg_arch_stub_place(const struct zg_ahead *ahead, uint64_t start) {
    uint8_t code[11];
    uint64_t skipped = 0;
    int32_t distance;
    if (ahead->read(code, start, sizeof code) != sizeof code) return 0;
    if (code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa) skipped = 4; // endbr64
    if (code[skipped] == 0xf2) skipped++;
    if (skipped + 6 > sizeof code || code[skipped] != 0xff || code[skipped + 1] != 0x25) return 0;
    __builtin_memcpy(&distance, code + skipped + 2, sizeof distance);
    return start + skipped + 6 + (uint64_t)(int64_t)distance;
}

#define BIT(number) (UINT32_C(1) << (number))

const struct zg_ahead_registers zg_arch_ahead_registers = {
    .arguments = {RDI, RSI, RDX, RCX, R8, R9, R13},
    .argument_count = 7,
    .self = R13,
    .stack = RSP,
    .result = RAX,
    .task = R14,
    .changed = BIT(RAX) | BIT(RCX) | BIT(RDX) | BIT(RSI) | BIT(RDI) | BIT(R8) | BIT(R9) | BIT(R10) | BIT(R11),
};

void zg_arch_ahead_start(struct zg_ahead_machine *m, const struct zg_registers *registers) {
    // The processor's order to DWARF's.
    static const uint8_t dwarf[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
    static const int preserved[] = {RBX, RSP, RBP, R12, R13, R14, R15};
    for (size_t i = 0; i < ZG_ARRAY_COUNT(preserved); i++)
        if (registers->known >> dwarf[preserved[i]] & 1)
            m->registers[preserved[i]] = zg_known_word(registers->value[dwarf[preserved[i]]]);
}

#endif
