// Executes one AArch64 instruction on known bits: the integer instructions, calls, loads and stores that compilers
// generate. Vectors can be moved and cleared; the result of any other vector instruction is unknown. Functions are
// named after tables of the Arm Architecture Reference Manual (DDI 0487), section C4.1. Signal context; pure except for
// the memory of the calling emulator; no lock.

#if defined(__aarch64__)

#include "platform/step.h"

#include "platform/arch_aarch64_decode.h"

#define BITS(from, count) zg_a64_bits(word, from, count)
#define RD BITS(0, 5)
#define RN BITS(5, 5)
#define RM BITS(16, 5)

enum { LINK = 30, SP = 31 };
enum { NEGATIVE = 8, ZERO = 4, CARRY = 2, OVERFLOW = 1, ALL_FLAGS = 15 };

// --- registers -------------------------------------------------------------------------------------------------------

static struct zg_known_bits sized(struct zg_known_bits value, bool is_wide) {
    return is_wide ? value : zg_known_bits_cut(value, 4);
}

// Reads a register; 31 is the zero register.
static struct zg_known_bits get(struct zg_cpu *m, uint32_t number, bool is_wide) {
    if (number == 31) return zg_known_bits_word(0);
    m->used |= 1u << number;
    return sized(m->registers[number], is_wide);
}
// Reads a register; 31 is sp.
static struct zg_known_bits get_or_sp(struct zg_cpu *m, uint32_t number, bool is_wide) {
    return number == SP ? sized(m->registers[SP], is_wide) : get(m, number, is_wide);
}
static void set(struct zg_cpu *m, uint32_t number, bool is_wide, struct zg_known_bits value) {
    if (number == 31) return;
    m->set |= 1u << number;
    m->registers[number] = sized(value, is_wide);
}
static void set_or_sp(struct zg_cpu *m, uint32_t number, bool is_wide, struct zg_known_bits value) {
    m->set |= 1u << number;
    m->registers[number] = sized(value, is_wide);
}

// --- flags -----------------------------------------------------------------------------------------------------------

static uint64_t top(bool is_wide) { return UINT64_C(1) << (is_wide ? 63 : 31); }

static void set_flags(struct zg_cpu *m, uint64_t result, bool is_wide, bool carry, bool overflow) {
    if (!is_wide) result = (uint32_t)result;
    m->flags = (uint8_t)((result & top(is_wide) ? NEGATIVE : 0) | (result ? 0 : ZERO) | (carry ? CARRY : 0) |
                         (overflow ? OVERFLOW : 0));
    m->known_flags = ALL_FLAGS;
}

// Sets the flags of a logical operation: carry and overflow are 0. Flags that depend on unknown bits become unknown.
static void set_flags_of(struct zg_cpu *m, struct zg_known_bits result, bool is_wide) {
    result = sized(result, is_wide);
    set_flags(m, result.bits, is_wide, false, false);
    if (zg_known_bits_is_whole(result)) return;
    m->known_flags = CARRY | OVERFLOW;
    if (result.bits & result.known) m->known_flags |= ZERO;
    if (result.known & top(is_wide)) m->known_flags |= NEGATIVE;
}

// Evaluates a condition code. False if a flag that it needs is unknown. An odd code is the opposite of the even code
// before it, except that 14 and 15 both mean "always".
static bool condition(const struct zg_cpu *m, uint32_t number, bool *holds) {
    static const uint8_t needed[8] = {
        ZERO, CARRY, NEGATIVE, OVERFLOW, CARRY | ZERO, NEGATIVE | OVERFLOW, ALL_FLAGS & ~CARRY, 0};
    uint8_t flags = m->flags, asked = needed[number >> 1];
    bool is_less = !(flags & NEGATIVE) != !(flags & OVERFLOW);
    if ((m->known_flags & asked) != asked) return false;
    switch (number >> 1) {
    case 4: *holds = (flags & CARRY) && !(flags & ZERO); break;
    case 5: *holds = !is_less; break;
    case 6: *holds = !is_less && !(flags & ZERO); break;
    case 7: *holds = true; return true;
    default: *holds = flags & asked;
    }
    if (number & 1) *holds = !*holds;
    return true;
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

// Returns a + b + carry. A subtraction passes the complement of b, and carry 1.
static struct zg_known_bits add(struct zg_cpu *m, struct zg_known_bits a, struct zg_known_bits b, bool carry,
                                bool is_wide, bool sets) {
    uint64_t mask = zg_known_bits_mask(is_wide ? 8 : 4);
    if (!zg_known_bits_is_whole(a) && zg_known_bits_is_whole(b) && carry && (b.bits & mask) == mask) { // subtracts 0
        if (sets) set_flags_of(m, a, is_wide), m->flags |= CARRY;
        return sized(a, is_wide);
    }
    if (!zg_known_bits_is_whole(a) || !zg_known_bits_is_whole(b)) {
        if (sets) m->known_flags = 0;
        return sized(zg_known_bits_none(), is_wide);
    }
    uint64_t sum = (a.bits + b.bits + carry) & mask;
    bool carries = sum < (a.bits & mask) || (carry && sum == (a.bits & mask));
    if (sets) set_flags(m, sum, is_wide, carries, (a.bits ^ sum) & (b.bits ^ sum) & top(is_wide));
    return zg_known_bits_word(sum);
}

static struct zg_known_bits complement(struct zg_known_bits value, bool is_wide) {
    return sized((struct zg_known_bits){~value.bits & value.known, value.known}, is_wide);
}

static struct zg_known_bits shifted(struct zg_known_bits value, uint32_t kind, uint32_t count, bool is_wide) {
    uint32_t size = is_wide ? 64 : 32;
    value = sized(value, is_wide);
    count &= size - 1;
    if (!count) return value;
    uint64_t fill = ZG_ALL_BITS << (size - count), low = (UINT64_C(1) << count) - 1;
    uint64_t own = zg_known_bits_mask(is_wide ? 8 : 4);
    switch (kind) {
    case 0: return sized((struct zg_known_bits){value.bits << count, value.known << count | low}, is_wide);
    case 1:
        return sized((struct zg_known_bits){(value.bits & own) >> count, (value.known & own) >> count | fill}, is_wide);
    case 2: {
        struct zg_known_bits result = {(value.bits & own) >> count, (value.known & own) >> count};
        if (value.known & top(is_wide)) result.known |= fill;
        if (value.bits & top(is_wide)) result.bits |= fill & result.known;
        return sized(result, is_wide);
    }
    default:
        value.bits = (value.bits & own) >> count | value.bits << (size - count);
        value.known = (value.known & own) >> count | value.known << (size - count);
        return sized(value, is_wide);
    }
}

// Extends the lowest 8 << (option & 3) bits: with the sign if bit 2 of `option` is set, otherwise with zeros.
static struct zg_known_bits extended(struct zg_known_bits value, uint32_t option) {
    int bytes = 1 << (option & 3), spare = 64 - 8 * bytes;
    if (!(option & 4)) return zg_known_bits_cut(value, bytes);
    return (struct zg_known_bits){(uint64_t)((int64_t)(value.bits << spare) >> spare),
                                  (uint64_t)((int64_t)(value.known << spare) >> spare)};
}

// --- loads and stores ------------------------------------------------------------------------------------------------

static bool load_vector(struct zg_cpu *m, struct zg_known_bits address, int bytes, uint32_t number) {
    struct zg_known_bits low, high = zg_known_bits_word(0);
    if (!m->load(m, address, bytes > 8 ? 8 : bytes, &low)) return false;
    if (bytes > 8 && !m->load(m, zg_known_bits_sum(address, zg_known_bits_word(8)), 8, &high)) return false;
    m->vectors[number][0] = low, m->vectors[number][1] = high;
    return true;
}

static bool store_vector(struct zg_cpu *m, struct zg_known_bits address, int bytes, uint32_t number) {
    if (!m->store(m, address, bytes > 8 ? 8 : bytes, m->vectors[number][0])) return false;
    return bytes <= 8 || m->store(m, zg_known_bits_sum(address, zg_known_bits_word(8)), 8, m->vectors[number][1]);
}

static bool load_one(struct zg_cpu *m, const struct zg_a64 *it, struct zg_known_bits address, uint32_t number) {
    struct zg_known_bits value;
    if (it->is_vector) return load_vector(m, address, it->bytes, number);
    if (!m->load(m, address, it->bytes, &value)) return false;
    value = zg_known_bits_cut(value, it->bytes);
    if (it->signed_to) {
        uint32_t size = (uint32_t)__builtin_ctz(it->bytes);
        value = zg_known_bits_cut(extended(value, 4 | size), it->signed_to);
    }
    set(m, number, true, value);
    return true;
}

static bool store_one(struct zg_cpu *m, const struct zg_a64 *it, struct zg_known_bits address, uint32_t number) {
    if (it->is_vector) return store_vector(m, address, it->bytes, number);
    return m->store(m, address, it->bytes, get(m, number, true));
}

static struct zg_known_bits modified(const struct zg_a64 *it, struct zg_known_bits old, struct zg_known_bits by) {
    int spare = 64 - 8 * it->bytes;
    bool all = zg_known_bits_is_whole(old) && zg_known_bits_is_whole(by);
    int64_t a = (int64_t)(old.bits << spare), b = (int64_t)(by.bits << spare);
    struct zg_known_bits one = all ? old : zg_known_bits_none(), other = all ? by : zg_known_bits_none();
    switch (it->operation) {
    case zg_a64_add: return zg_known_bits_sum(old, by);
    case zg_a64_clear: return zg_known_bits_and(old, (struct zg_known_bits){~by.bits & by.known, by.known});
    case zg_a64_xor: return zg_known_bits_xor(old, by);
    case zg_a64_set: return zg_known_bits_or(old, by);
    case zg_a64_signed_max: return a > b ? one : other;
    case zg_a64_signed_min: return a < b ? one : other;
    case zg_a64_unsigned_max: return (uint64_t)a > (uint64_t)b ? one : other;
    case zg_a64_unsigned_min: return (uint64_t)a < (uint64_t)b ? one : other;
    }
    return by;
}

static bool modify(struct zg_cpu *m, const struct zg_a64 *it, struct zg_known_bits address) {
    struct zg_known_bits old, by = zg_known_bits_cut(get(m, it->status, true), it->bytes);
    if (!m->load(m, address, it->bytes, &old)) return false;
    old = zg_known_bits_cut(old, it->bytes);
    if (!m->store(m, address, it->bytes, modified(it, old, by))) return false;
    set(m, it->first, true, old);
    return true;
}

// Compare and swap of one register or a pair.
static bool compare(struct zg_cpu *m, const struct zg_a64 *it, struct zg_known_bits address) {
    struct zg_known_bits old[2], wanted[2];
    bool is_equal = true, is_different = false;
    for (uint32_t i = 0; i < it->count; i++) {
        struct zg_known_bits place = zg_known_bits_sum(address, zg_known_bits_word(i * it->bytes));
        if (!m->load(m, place, it->bytes, &old[i])) return false;
        old[i] = zg_known_bits_cut(old[i], it->bytes);
        uint32_t number = it->status + i;
        wanted[i] = zg_known_bits_cut(get(m, number, true), it->bytes);
        if (!zg_known_bits_is_whole(old[i]) || !zg_known_bits_is_whole(wanted[i])) is_equal = false;
        if ((old[i].bits ^ wanted[i].bits) & old[i].known & wanted[i].known) is_equal = false, is_different = true;
    }
    for (uint32_t i = 0; i < it->count && !is_different; i++) {
        struct zg_known_bits place = zg_known_bits_sum(address, zg_known_bits_word(i * it->bytes));
        struct zg_known_bits value = get(m, (i ? it->second : it->first), true);
        if (!m->store(m, place, it->bytes, is_equal ? value : zg_known_bits_none())) return false;
    }
    for (uint32_t i = 0; i < it->count; i++)
        set(m, it->status + i, true,
            is_equal || is_different ? old[i] : zg_known_bits_cut(zg_known_bits_none(), it->bytes));
    return true;
}

static bool load_or_store(struct zg_cpu *m, const struct zg_a64 *it) {
    struct zg_known_bits base = it->from_pc ? zg_known_bits_word(m->pc) : get_or_sp(m, it->base, true), address = base;
    if (it->update != zg_a64_after) address = zg_known_bits_sum(address, zg_known_bits_word((uint64_t)it->offset));
    if (it->index != ZG_A64_NONE)
        address =
            zg_known_bits_sum(address, shifted(extended(get(m, it->index, true), it->extend), 0, it->shift, true));
    bool is_done = false;
    switch (it->kind) {
    case zg_a64_modify: is_done = modify(m, it, address); break;
    case zg_a64_compare: is_done = compare(m, it, address); break;
    case zg_a64_load:
    case zg_a64_load_exclusive:
    case zg_a64_store:
    case zg_a64_store_exclusive:
        is_done = true;
        for (uint32_t i = 0; i < it->count && is_done; i++) {
            struct zg_known_bits place = zg_known_bits_sum(address, zg_known_bits_word(i * it->bytes));
            bool is_load = it->kind == zg_a64_load || it->kind == zg_a64_load_exclusive;
            uint32_t number = i ? it->second : it->first;
            is_done = is_load ? load_one(m, it, place, number) : store_one(m, it, place, number);
        }
        if (it->kind == zg_a64_store_exclusive) set(m, it->status, true, zg_known_bits_word(0));
        break;
    default: break;
    }
    if (it->update) m->registers[it->base] = zg_known_bits_sum(base, zg_known_bits_word((uint64_t)it->offset));
    return is_done;
}

// --- data processing, immediate --------------------------------------------------------------------------------------

// DecodeBitMasks of the manual: a rotated run of ones, whose length `ones` encodes, repeated in every element. False if
// unallocated.
static bool bit_mask(uint32_t is_wide_element, uint32_t rotated, uint32_t ones, uint64_t *mask) {
    uint32_t length = is_wide_element << 6 | (~ones & 0x3f), bits = 31 - (uint32_t)__builtin_clz(length | 1);
    if (length < 2) return false;
    uint32_t size = 1u << bits, count = (ones & (size - 1)) + 1;
    if (count == size) return false;
    rotated &= size - 1;
    uint64_t element = (UINT64_C(1) << count) - 1, own = size == 64 ? ZG_ALL_BITS : (UINT64_C(1) << size) - 1;
    if (rotated) element = (element >> rotated | element << (size - rotated)) & own;
    for (*mask = 0; size <= 64; size *= 2) {
        *mask = element;
        if (size < 64) element |= element << size;
    }
    return true;
}

static struct zg_known_bits logical(struct zg_cpu *m, uint32_t operation, struct zg_known_bits a,
                                    struct zg_known_bits b, bool is_wide) {
    struct zg_known_bits result = operation == 1   ? zg_known_bits_or(a, b)
                                  : operation == 2 ? zg_known_bits_xor(a, b)
                                                   : zg_known_bits_and(a, b);
    if (operation == 3) set_flags_of(m, result, is_wide);
    return sized(result, is_wide);
}

// sbfm, bfm, ubfm.
static bool bitfield(struct zg_cpu *m, uint32_t word, bool is_wide) {
    uint32_t kind = BITS(29, 2), rotated = BITS(16, 6), last = BITS(10, 6), size = is_wide ? 64 : 32;
    if (kind == 3 || BITS(22, 1) != is_wide || rotated >= size || last >= size) return false;
    struct zg_known_bits from = get(m, RN, is_wide);
    bool extracts = last >= rotated;
    uint32_t count = extracts ? last - rotated + 1 : last + 1, place = extracts ? 0 : size - rotated;
    uint64_t field = count == 64 ? ZG_ALL_BITS : (UINT64_C(1) << count) - 1, mask = field << place;
    struct zg_known_bits part = {from.bits >> (extracts ? rotated : 0) & field,
                                 from.known >> (extracts ? rotated : 0) & field};
    part.bits <<= place, part.known <<= place;
    if (kind == 1) {
        struct zg_known_bits to = get(m, RD, is_wide);
        part.bits |= to.bits & ~mask, part.known |= to.known & ~mask;
    } else {
        uint64_t sign = UINT64_C(1) << (place + count - 1), above = ~(mask | (mask - 1));
        part.known |= ~(mask | above);
        if (kind == 2 || part.known & sign) part.known |= above;
        if (kind == 0 && part.bits & sign) part.bits |= above & part.known;
    }
    set(m, RD, is_wide, part);
    return true;
}

static bool add_immediate(struct zg_cpu *m, uint32_t word, bool is_wide) {
    bool subtracts = BITS(30, 1), sets = BITS(29, 1);
    struct zg_known_bits value = zg_known_bits_word((uint64_t)BITS(10, 12) << (BITS(22, 1) ? 12 : 0));
    if (subtracts) value = complement(value, is_wide);
    struct zg_known_bits sum = add(m, get_or_sp(m, RN, is_wide), sized(value, is_wide), subtracts, is_wide, sets);
    if (sets) set(m, RD, is_wide, sum);
    else set_or_sp(m, RD, is_wide, sum);
    return true;
}

static bool logical_immediate(struct zg_cpu *m, uint32_t word, bool is_wide) {
    uint64_t mask;
    uint32_t operation = BITS(29, 2);
    if ((!is_wide && BITS(22, 1)) || !bit_mask(BITS(22, 1), BITS(16, 6), BITS(10, 6), &mask)) return false;
    struct zg_known_bits b = sized(zg_known_bits_word(mask), is_wide);
    struct zg_known_bits result = logical(m, operation, get(m, RN, is_wide), b, is_wide);
    if (operation == 3) set(m, RD, is_wide, result);
    else set_or_sp(m, RD, is_wide, result);
    return true;
}

// movn, movz, movk.
static bool move_wide(struct zg_cpu *m, uint32_t word, bool is_wide) {
    uint32_t operation = BITS(29, 2), place = BITS(21, 2) * 16;
    struct zg_known_bits value = zg_known_bits_word((uint64_t)BITS(5, 16) << place);
    if (operation == 1 || (!is_wide && place > 16)) return false;
    if (operation == 0) value = complement(value, is_wide);
    if (operation == 3) {
        uint64_t mask = UINT64_C(0xffff) << place;
        struct zg_known_bits old = get(m, RD, is_wide);
        value = (struct zg_known_bits){(old.bits & ~mask) | value.bits, old.known | mask};
    }
    set(m, RD, is_wide, value);
    return true;
}

// extr.
static bool extract(struct zg_cpu *m, uint32_t word, bool is_wide) {
    uint32_t count = BITS(10, 6), size = is_wide ? 64 : 32;
    if (BITS(29, 2) || BITS(21, 1) || BITS(22, 1) != is_wide || count >= size) return false;
    struct zg_known_bits high = get(m, RN, is_wide), low = get(m, RM, is_wide);
    if (count) {
        low.bits = low.bits >> count | high.bits << (size - count);
        low.known = (low.known & zg_known_bits_mask(is_wide ? 8 : 4)) >> count | high.known << (size - count);
    }
    set(m, RD, is_wide, low);
    return true;
}

static bool immediate(struct zg_cpu *m, uint32_t word) {
    bool is_wide = BITS(31, 1);
    switch (BITS(23, 3)) {
    case 0:
    case 1: { // adr, adrp
        int64_t distance = zg_a64_signed(word, 5, 19) * 4 + (int64_t)BITS(29, 2);
        uint64_t from = is_wide ? m->pc & ~UINT64_C(4095) : m->pc;
        set(m, RD, true, zg_known_bits_word(from + (uint64_t)(is_wide ? distance * 4096 : distance)));
        return true;
    }
    case 2: return add_immediate(m, word, is_wide);
    case 4: return logical_immediate(m, word, is_wide);
    case 5: return move_wide(m, word, is_wide);
    case 6: return bitfield(m, word, is_wide);
    case 7: return extract(m, word, is_wide);
    }
    return false;
}

// --- data processing, register ---------------------------------------------------------------------------------------

static uint64_t reversed(uint64_t value, uint32_t group) { // reverses each group of `group` bytes
    uint64_t result = 0;
    for (uint32_t i = 0; i < 8; i++)
        result |= (value >> 8 * i & 0xff) << 8 * (i / group * group + group - 1 - i % group);
    return result;
}

static bool one_source(struct zg_cpu *m, uint32_t word, bool is_wide) {
    uint32_t opcode = BITS(10, 6);
    if (BITS(29, 1)) return false;
    if (RM == 1) { // pac*, aut*, xpac*: the result has no signature
        if (!zg_known_bits_is_whole(m->registers[RD == 31 ? SP : RD])) return true;
        set(m, RD, true, zg_known_bits_word(zg_arch_strip(get(m, RD, true).bits)));
        return is_wide;
    }
    if (RM) return false;
    struct zg_known_bits value = get(m, RN, is_wide), result = zg_known_bits_none();
    uint64_t bits = value.bits, spare = is_wide ? 0 : 32;
    if (opcode > 8) return false;
    if (zg_known_bits_is_whole(value)) {
        uint64_t placed = bits << spare; // aligned to bit 63
        switch (opcode) {
        case 0: {
            uint64_t turned = reversed(bits, 8);
            turned = (turned & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4 | (turned >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f));
            turned = (turned & UINT64_C(0x3333333333333333)) << 2 | (turned >> 2 & UINT64_C(0x3333333333333333));
            turned = (turned & UINT64_C(0x5555555555555555)) << 1 | (turned >> 1 & UINT64_C(0x5555555555555555));
            result = zg_known_bits_word(turned >> spare);
            break;
        }
        case 1: result = zg_known_bits_word(reversed(bits, 2)); break;
        case 2: result = zg_known_bits_word(reversed(bits, 4)); break;
        case 3:
            if (!is_wide) return false;
            result = zg_known_bits_word(reversed(bits, 8));
            break;
        case 4: result = zg_known_bits_word(placed ? (uint64_t)__builtin_clzll(placed) : 64 - spare); break;
        case 5: {
            uint64_t differs = placed ^ (uint64_t)((int64_t)placed >> 1); // bit i: bits i and i + 1 differ
            differs = (differs & (ZG_ALL_BITS >> 1)) >> spare << spare;
            result = zg_known_bits_word(differs ? (uint64_t)__builtin_clzll(differs) - 1 : 63 - spare);
            break;
        }
        case 6: result = zg_known_bits_word(bits ? (uint64_t)__builtin_ctzll(bits) : 64 - spare); break;
        case 7: result = zg_known_bits_word((uint64_t)__builtin_popcountll(bits)); break;
        case 8: result = zg_known_bits_word((int64_t)placed < 0 ? 0 - bits : bits); break;
        }
    }
    set(m, RD, is_wide, result);
    return true;
}

static bool two_sources(struct zg_cpu *m, uint32_t word, bool is_wide) {
    uint32_t opcode = BITS(10, 6);
    struct zg_known_bits a = get(m, RN, is_wide), b = get(m, RM, is_wide), result = zg_known_bits_none();
    if (BITS(29, 1)) return false;
    bool all = zg_known_bits_is_whole(a) && zg_known_bits_is_whole(b);
    switch (opcode) {
    case 2:
        if (all) result = zg_known_bits_word(b.bits ? a.bits / b.bits : 0);
        break;
    case 3:
        if (all && is_wide)
            result = zg_known_bits_word(!b.bits                 ? 0
                                        : b.bits == ZG_ALL_BITS ? 0 - a.bits
                                                                : (uint64_t)((int64_t)a.bits / (int64_t)b.bits));
        else if (all)
            result = zg_known_bits_word(!b.bits ? 0 : (uint64_t)((int64_t)(int32_t)a.bits / (int64_t)(int32_t)b.bits));
        break;
    case 8:
    case 9:
    case 10:
    case 11:
        if (zg_known_bits_is_whole(b)) result = shifted(a, opcode & 3, (uint32_t)b.bits, is_wide);
        break;
    case 4:
    case 5:
    case 12: break; // irg, gmi, pacga
    default:
        if (opcode < 16 || opcode > 27) return false; // crc32, smax and others: unknown result
    }
    set(m, RD, is_wide, result);
    return true;
}

static bool three_sources(struct zg_cpu *m, uint32_t word, bool is_wide) {
    uint32_t operation = BITS(21, 3);
    bool subtracts = BITS(15, 1), is_unsigned = operation & 4, is_long = operation & 3;
    if (BITS(29, 2) || operation == 3 || operation == 4 || operation == 7 || (is_long && !is_wide)) return false;
    struct zg_known_bits a = get(m, RN, is_wide), b = get(m, RM, is_wide), c = get(m, BITS(10, 5), is_wide);
    bool is_high = operation & 2, all = zg_known_bits_is_whole(a) && zg_known_bits_is_whole(b);
    struct zg_known_bits result = zg_known_bits_none();
    if (is_high) {
        unsigned __int128 product = is_unsigned ? (unsigned __int128)a.bits * b.bits
                                                : (unsigned __int128)((__int128)(int64_t)a.bits * (int64_t)b.bits);
        if (all) result = zg_known_bits_word((uint64_t)(product >> 64));
    } else {
        if (is_long) {
            a = extended(a, is_unsigned ? 2 : 6), b = extended(b, is_unsigned ? 2 : 6);
            all = zg_known_bits_is_whole(a) && zg_known_bits_is_whole(b);
        }
        uint64_t product = a.bits * b.bits;
        if (all) result = zg_known_bits_sum(c, zg_known_bits_word(subtracts ? 0 - product : product));
    }
    set(m, RD, is_wide, result);
    return true;
}

static bool select(struct zg_cpu *m, uint32_t word, bool is_wide) {
    bool holds, inverts = BITS(30, 1), increments = BITS(10, 1);
    if (BITS(29, 1) || BITS(11, 1)) return false;
    struct zg_known_bits a = get(m, RN, is_wide), b = get(m, RM, is_wide);
    if (inverts) b = complement(b, is_wide);
    if (increments) b = zg_known_bits_sum(b, zg_known_bits_word(1));
    bool is_told = condition(m, BITS(12, 4), &holds);
    set(m, RD, is_wide, !is_told ? zg_known_bits_none() : holds ? a : b);
    return true;
}

static bool compare_if(struct zg_cpu *m, uint32_t word, bool is_wide) {
    bool holds, subtracts = BITS(30, 1);
    if (!BITS(29, 1) || BITS(10, 1) || BITS(4, 1)) return false;
    struct zg_known_bits a = get(m, RN, is_wide), b = BITS(11, 1) ? zg_known_bits_word(RM) : get(m, RM, is_wide);
    if (!condition(m, BITS(12, 4), &holds)) {
        m->known_flags = 0;
    } else if (holds) {
        add(m, a, subtracts ? complement(b, is_wide) : b, subtracts, is_wide, true);
    } else {
        m->flags = (uint8_t)BITS(0, 4);
        m->known_flags = ALL_FLAGS;
    }
    return true;
}

// and, orr, eor, ands, also with the complement of the second operand.
static bool logical_registers(struct zg_cpu *m, uint32_t word, bool is_wide) {
    if (!is_wide && BITS(15, 1)) return false;
    struct zg_known_bits b = shifted(get(m, RM, is_wide), BITS(22, 2), BITS(10, 6), is_wide);
    if (BITS(21, 1)) b = complement(b, is_wide);
    set(m, RD, is_wide, logical(m, BITS(29, 2), get(m, RN, is_wide), b, is_wide));
    return true;
}

static bool add_registers(struct zg_cpu *m, uint32_t word, bool is_wide) {
    bool subtracts = BITS(30, 1), sets = BITS(29, 1), extends = BITS(21, 1);
    struct zg_known_bits a = extends ? get_or_sp(m, RN, is_wide) : get(m, RN, is_wide), b = get(m, RM, is_wide);
    if (extends) {
        if (BITS(22, 2) || BITS(10, 3) > 4) return false;
        b = sized(shifted(extended(b, BITS(13, 3)), 0, BITS(10, 3), true), is_wide);
    } else {
        if (BITS(22, 2) == 3 || (!is_wide && BITS(15, 1))) return false;
        b = shifted(b, BITS(22, 2), BITS(10, 6), is_wide);
    }
    if (subtracts) b = complement(b, is_wide);
    a = add(m, a, b, subtracts, is_wide, sets);
    if (extends && !sets) set_or_sp(m, RD, is_wide, a);
    else set(m, RD, is_wide, a);
    return true;
}

// adc, sbc.
static bool add_with_carry(struct zg_cpu *m, uint32_t word, bool is_wide) {
    bool subtracts = BITS(30, 1), sets = BITS(29, 1);
    if (BITS(10, 6)) return false;
    struct zg_known_bits a = get(m, RN, is_wide), b = get(m, RM, is_wide);
    if (!(m->known_flags & CARRY)) b = zg_known_bits_none();
    if (subtracts) b = complement(b, is_wide);
    set(m, RD, is_wide, add(m, a, b, m->flags & CARRY, is_wide, sets));
    return true;
}

static bool register_operands(struct zg_cpu *m, uint32_t word) {
    bool is_wide = BITS(31, 1);
    if (!BITS(28, 1)) return BITS(24, 1) ? add_registers(m, word, is_wide) : logical_registers(m, word, is_wide);
    if (BITS(24, 1)) return three_sources(m, word, is_wide);
    switch (BITS(21, 3)) {
    case 0: return add_with_carry(m, word, is_wide);
    case 2: return compare_if(m, word, is_wide);
    case 4: return select(m, word, is_wide);
    case 6: return BITS(30, 1) ? one_source(m, word, is_wide) : two_sources(m, word, is_wide);
    }
    return false;
}

// --- vectors ---------------------------------------------------------------------------------------------------------

static void set_vector(struct zg_cpu *m, uint32_t number, struct zg_known_bits low, struct zg_known_bits high) {
    m->vectors[number][0] = low, m->vectors[number][1] = high;
}

// Moves between general registers and vectors, and moves of 64-bit elements. False for other instructions.
static bool move_element(struct zg_cpu *m, uint32_t word) {
    struct zg_known_bits zero = zg_known_bits_word(0), *from = m->vectors[RN], *to = m->vectors[RD];
    switch (word & 0xfffffc00) {
    case 0x9e660000: set(m, RD, true, from[0]); return true;                             // fmov x, d
    case 0x1e260000: set(m, RD, false, from[0]); return true;                            // fmov w, s
    case 0x9eae0000: set(m, RD, true, from[1]); return true;                             // fmov x, v.d[1]
    case 0x9e670000: set_vector(m, RD, get(m, RN, true), zero); return true;             // fmov d, x
    case 0x1e270000: set_vector(m, RD, get(m, RN, false), zero); return true;            // fmov s, w
    case 0x9eaf0000: to[1] = get(m, RN, true); return true;                              // fmov v.d[1], x
    case 0x1e604000: set_vector(m, RD, from[0], zero); return true;                      // fmov d, d
    case 0x4e080c00: set_vector(m, RD, get(m, RN, true), get(m, RN, true)); return true; // dup v.2d, x
    case 0x4e080400: set_vector(m, RD, from[0], from[0]); return true;                   // dup v.2d, v.d[0]
    case 0x5e180400: set_vector(m, RD, from[1], zero); return true;                      // mov d, v.d[1]
    case 0x4e083c00: set(m, RD, true, from[0]); return true;                             // umov x, v.d[0]
    case 0x4e183c00: set(m, RD, true, from[1]); return true;                             // umov x, v.d[1]
    case 0x4e081c00: to[0] = get(m, RN, true); return true;                              // mov v.d[0], x
    case 0x4e181c00: to[1] = get(m, RN, true); return true;                              // mov v.d[1], x
    }
    return false;
}

// Moves and clears of vectors. False for other instructions.
static bool move_vector(struct zg_cpu *m, uint32_t word) {
    struct zg_known_bits zero = zg_known_bits_word(0), *from = m->vectors[RN];
    uint32_t cleared = word & 0xffffffe0;
    bool clears = cleared == 0x6f00e400 || cleared == 0x4f000400 || cleared == 0x2f00e400; // movi #0
    if (clears || ((word & 0xbfe0fc00) == 0x2e201c00 && RN == RM)) {                       // eor with itself
        set_vector(m, RD, zero, zero);
    } else if ((word & 0xbfe0fc00) == 0x0ea01c00 && RN == RM) { // mov
        set_vector(m, RD, from[0], BITS(30, 1) ? from[1] : zero);
    } else if ((word & 0xffe0fc00) == 0x4ec03800) { // zip1 v.2d
        set_vector(m, RD, from[0], m->vectors[RM][0]);
    } else if ((word & 0xffe0fc00) == 0x6e180400 || (word & 0xffe0bc00) == 0x6e080400) { // mov v.d[i], v.d[j]
        m->vectors[RD][BITS(20, 1)] = from[BITS(14, 1)];
    } else {
        return move_element(m, word);
    }
    return true;
}

// Makes the result of a floating-point or vector instruction unknown.
static void forget_vector(struct zg_cpu *m, uint32_t word) {
    bool is_scalar = (word & 0x5f000000) == 0x1e000000;
    if (is_scalar && BITS(21, 1) && (BITS(10, 2) == 1 || BITS(10, 4) == 8)) { // fccmp, fcmp
        m->known_flags = 0;
        return;
    }
    bool converts = is_scalar && (!BITS(21, 1) || !BITS(10, 6)); // from or to a general register
    bool takes_element = (word & 0x9fe0d400) == 0x0e001400 || (word & 0xbfe0ec00) == 0x0e002c00; // smov, umov
    if (converts || takes_element) set(m, RD, true, zg_known_bits_none());
    set_vector(m, RD, zg_known_bits_none(), zg_known_bits_none());
}

// --- branches and the system -----------------------------------------------------------------------------------------

static enum zg_step branch_if(struct zg_cpu *m, bool is_told, bool holds, int64_t distance,
                              struct zg_known_bits *target) {
    *target = zg_known_bits_word(m->pc + (uint64_t)distance);
    if (!is_told) return zg_step_forks;
    m->pc = holds ? target->bits : m->pc + 4;
    return zg_step_next;
}

static enum zg_step to_register(struct zg_cpu *m, uint32_t word, struct zg_known_bits *target) {
    struct zg_a64 it = zg_a64_decode(word);
    if (it.kind < zg_a64_jump || it.base == 31) return zg_step_lost;
    *target = get(m, it.base, true);
    bool authenticates = BITS(11, 1);
    if (authenticates && zg_known_bits_is_whole(*target)) target->bits = zg_arch_strip(target->bits);
    if (it.kind == zg_a64_call) m->registers[LINK] = zg_known_bits_word(m->pc + 4);
    return it.kind == zg_a64_call ? zg_step_calls : it.kind == zg_a64_jump ? zg_step_jumps : zg_step_returns;
}

// Hints, barriers, system registers, cache maintenance. Authentication of a return address removes its signature.
static bool system(struct zg_cpu *m, uint32_t word) {
    if ((word & 0xfffff01f) == 0xd503201f) { // hints
        uint32_t number = BITS(5, 7);
        bool checks = number == 7 || number == 28 || number == 29 || number == 30 || number == 31;
        struct zg_known_bits *link = &m->registers[LINK];
        if (checks && zg_known_bits_is_whole(*link)) link->bits = zg_arch_strip(link->bits);
        return number < 8 || number > 15; // pacia1716 and similar hints are not emulated
    }
    if ((word & 0xfffff000) == 0xd5033000) return true; // barriers, clrex
    if ((word & 0xffffffe0) == 0xd53bd040) {            // tpidr_el0
        set(m, RD, true, m->thread);
        return true;
    }
    if ((word & 0xffffffe0) == 0xd51b4200 || (word & 0xfff8f01f) == 0xd500401f) { // writes of nzcv, cfinv and similar
        m->known_flags = 0;
        return true;
    }
    if ((word & 0xfff00000) == 0xd5300000) { // mrs
        set(m, RD, true, zg_known_bits_none());
        return true;
    }
    return (word & 0xfff80000) == 0xd5080000 && zg_a64_decode(word).kind == zg_a64_read;
}

static enum zg_step branch_or_system(struct zg_cpu *m, uint32_t word, struct zg_known_bits *target) {
    bool holds = false, is_told;
    if (BITS(26, 5) == 5) { // b, bl
        *target = zg_known_bits_word(m->pc + (uint64_t)(zg_a64_signed(word, 0, 26) * 4));
        if (!BITS(31, 1)) return zg_step_jumps;
        m->registers[LINK] = zg_known_bits_word(m->pc + 4);
        return zg_step_calls;
    }
    if (BITS(25, 6) == 0x1a) { // cbz, cbnz
        struct zg_known_bits value = get(m, RD, BITS(31, 1));
        bool is_other = value.bits & value.known;
        is_told = is_other || zg_known_bits_is_whole(value);
        return branch_if(m, is_told, is_other == BITS(24, 1), zg_a64_signed(word, 5, 19) * 4, target);
    }
    if (BITS(25, 6) == 0x1b) { // tbz, tbnz
        uint32_t bit = BITS(31, 1) << 5 | BITS(19, 5);
        struct zg_known_bits value = get(m, RD, true);
        holds = (value.bits >> bit & 1) == BITS(24, 1);
        return branch_if(m, value.known >> bit & 1, holds, zg_a64_signed(word, 5, 14) * 4, target);
    }
    if (BITS(24, 8) == 0x54) { // b.cond, bc.cond
        is_told = condition(m, BITS(0, 4), &holds);
        return branch_if(m, is_told, holds, zg_a64_signed(word, 5, 19) * 4, target);
    }
    if (BITS(25, 7) == 0x6b) return to_register(m, word, target);
    if ((word & 0xffe0001f) == 0xd4200000) return zg_step_trap; // brk
    if (BITS(22, 10) == 0x354 && system(m, word)) {
        m->pc += 4;
        return zg_step_next;
    }
    return zg_step_lost;
}

static enum zg_step execute(struct zg_cpu *m, uint32_t word, struct zg_known_bits *target) {
    bool is_done = false;
    if (!(word >> 16)) return zg_step_trap; // udf
    uint32_t group = BITS(25, 4);
    if ((group & 14) == 10) return branch_or_system(m, word, target);
    if ((group & 14) == 8) {
        is_done = immediate(m, word);
    } else if ((group & 7) == 5) {
        is_done = register_operands(m, word);
    } else if ((group & 5) == 4) {
        struct zg_a64 it = zg_a64_decode(word);
        bool is_prefetch = it.kind == zg_a64_read && !it.bytes && !it.update;
        is_done = is_prefetch || (it.count && load_or_store(m, &it));
    } else if ((group & 7) == 7) {
        is_done = true;
        if (!move_vector(m, word)) forget_vector(m, word);
    }
    if (!is_done) return zg_step_lost;
    m->pc += 4;
    return zg_step_next;
}

enum zg_step zg_arch_step(struct zg_cpu *m, const uint8_t *code, int count, struct zg_step_target *target) {
    uint32_t word;
    *target = (struct zg_step_target){0};
    m->used = m->set = 0;
    if (count < (int)sizeof word || m->pc & 3) return zg_step_lost;
    __builtin_memcpy(&word, code, sizeof word);
    enum zg_step step = execute(m, word, &target->code);
    if (step == zg_step_forks || step == zg_step_calls) m->pc += sizeof word;
    target->may_be_call = step == zg_step_jumps;
    return step;
}

bool zg_arch_step_link(struct zg_cpu *m, uint64_t return_address) {
    m->registers[LINK] = zg_known_bits_word(return_address);
    return true;
}

#endif
