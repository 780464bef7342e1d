// Decodes AArch64 instructions: their access to memory, the registers that form the address, and branches to a
// register. Laid out as "Loads and Stores" in section C4.1 of the Arm Architecture Reference Manual (DDI 0487), whose
// tables the comments name. Signal context; pure, no lock.

#if defined(__aarch64__) || defined(ZG_ARCH_FOREIGN)

#include "platform/arch_aarch64_decode.h"

#define BITS(from, count) zg_a64_bits(word, from, count)
#define RT BITS(0, 5)
#define RN BITS(5, 5)
#define RT2 BITS(10, 5)
#define RM BITS(16, 5)
#define LOADS BITS(22, 1)

static const struct zg_a64 nothing = {.first = ZG_A64_NONE,
                                      .second = ZG_A64_NONE,
                                      .status = ZG_A64_NONE,
                                      .base = ZG_A64_NONE,
                                      .index = ZG_A64_NONE,
                                      .extend = ZG_A64_UXTX};

static struct zg_a64 access(enum zg_a64_kind kind, uint32_t base, uint32_t bytes) {
    struct zg_a64 it = nothing;
    it.kind = kind;
    it.base = (uint8_t)base;
    it.bytes = (uint8_t)bytes;
    return it;
}

// Returns an access other than a plain load or store (zg_a64_read, zg_a64_write).
static struct zg_a64 another(bool is_load, uint32_t base, uint32_t bytes) {
    return access(is_load ? zg_a64_read : zg_a64_write, base, bytes);
}

// Sets the one or two registers that are loaded or stored, and the status register.
static struct zg_a64 with(struct zg_a64 it, uint32_t first, uint32_t second, uint32_t status) {
    it.first = (uint8_t)first;
    it.second = (uint8_t)second;
    it.status = (uint8_t)status;
    it.count = second == ZG_A64_NONE ? 1 : 2;
    return it;
}

static struct zg_a64 updated(struct zg_a64 it, int64_t offset, enum zg_a64_update update) {
    it.offset = offset;
    it.update = (uint8_t)update;
    return it;
}

// Returns the access size by table "Advanced SIMD load/store multiple structures"; 0 if the encoding is unallocated.
static uint32_t structures_bytes(uint32_t word) {
    static const uint8_t registers[16] = {4, 0, 4, 0, 3, 0, 3, 1, 2, 0, 2};
    bool is_wide = BITS(30, 1), has_one_element = BITS(10, 2) == 3 && !is_wide;
    uint32_t opcode = BITS(12, 4);
    if (BITS(21, 1) || (has_one_element && !(opcode & 2))) return 0;
    return registers[opcode] * (is_wide ? 16 : 8);
}

// Returns the access size by table "Advanced SIMD load/store single structure"; 0 if the encoding is unallocated.
static uint32_t structure_bytes(uint32_t word) {
    uint32_t opcode = BITS(13, 3), size = BITS(10, 2), count = (opcode & 1) * 2 + BITS(21, 1) + 1;
    bool is_high = BITS(12, 1);
    switch (opcode >> 1) {
    case 0: return count;
    case 1: return size & 1 ? 0 : count << 1;
    case 2: return size & 2 || (size == 1 && is_high) ? 0 : count << (size == 1 ? 3 : 2);
    }
    return LOADS && !is_high ? count << size : 0; // ld1r to ld4r load each element into all lanes
}

// Both SIMD structure tables: bit 24 selects the table, bit 23 post-index.
static struct zg_a64 structures(uint32_t word) {
    bool is_single = BITS(24, 1), is_post = BITS(23, 1);
    if (BITS(31, 1)) return nothing;
    if (is_single && RM == 1 && !is_post) // ldap1, stl1
        return BITS(21, 1) || BITS(10, 6) != 0x21 ? nothing : another(LOADS, RN, 8);
    uint32_t bytes = is_single ? structure_bytes(word) : structures_bytes(word);
    if (!bytes || (!is_post && RM)) return nothing;
    struct zg_a64 it = another(LOADS, RN, bytes);
    if (!is_post) return it;
    it = updated(it, RM == 31 ? bytes : 0, zg_a64_after);
    if (RM != 31) it.index = (uint8_t)RM;
    return it;
}

// Table "Load/store exclusive and ordered": single, pair, ordered, compare and swap.
static struct zg_a64 exclusive(uint32_t word) {
    uint32_t size = BITS(30, 2), bytes = 1u << size, pair = size & 1 ? 8 : 4;
    switch (BITS(23, 1) << 1 | BITS(21, 1)) {
    case 0:
    case 1: {
        bool is_pair = BITS(21, 1);
        if (is_pair && size < 2) { // casp
            if (RT2 != 31 || RT & 1 || RM & 1) return nothing;
            return with(access(zg_a64_compare, RN, pair), RT, RT + 1, RM);
        }
        struct zg_a64 it = access(LOADS ? zg_a64_load_exclusive : zg_a64_store_exclusive, RN, is_pair ? pair : bytes);
        return with(it, RT, is_pair ? RT2 : ZG_A64_NONE, LOADS ? ZG_A64_NONE : RM);
    }
    case 2: return with(access(LOADS ? zg_a64_load : zg_a64_store, RN, bytes), RT, ZG_A64_NONE, ZG_A64_NONE);
    }
    return RT2 != 31 ? nothing : with(access(zg_a64_compare, RN, bytes), RT, ZG_A64_NONE, RM);
}

// Unprivileged exclusive and compare-and-swap instructions.
static struct zg_a64 unprivileged_exclusive(uint32_t word) {
    uint32_t bytes = BITS(30, 1) ? 8 : 4;
    if (BITS(21, 1)) return nothing;
    if (BITS(23, 1)) {
        if (!BITS(30, 1)) return nothing;
        if (BITS(31, 1)) return with(access(zg_a64_compare, RN, bytes), RT, ZG_A64_NONE, RM);
        return RT & 1 || RM & 1 ? nothing : with(access(zg_a64_compare, RN, bytes), RT, RT + 1, RM);
    }
    if (!BITS(31, 1)) return nothing;
    struct zg_a64 it = access(LOADS ? zg_a64_load_exclusive : zg_a64_store_exclusive, RN, bytes);
    return with(it, RT, ZG_A64_NONE, LOADS ? ZG_A64_NONE : RM);
}

// Decodes size, V and opc of a load or store of one register. False if unallocated. A prefetch is a zg_a64_read without
// registers and size.
static bool of_one(uint32_t word, struct zg_a64 *it) {
    uint32_t size = BITS(30, 2), opc = BITS(22, 2);
    *it = nothing;
    it->base = (uint8_t)RN;
    if (BITS(26, 1)) {
        if (opc & 2 && size) return false;
        it->bytes = (uint8_t)(opc & 2 ? 16 : 1 << size);
        it->is_vector = true;
        it->kind = opc & 1 ? zg_a64_load : zg_a64_store;
    } else {
        if (size == 3 && opc >= 2) {
            it->kind = zg_a64_read;
            return opc == 2;
        }
        if (size == 2 && opc == 3) return false;
        it->bytes = (uint8_t)(1 << size);
        it->kind = opc ? zg_a64_load : zg_a64_store;
        it->signed_to = opc == 2 ? 8 : opc == 3 ? 4 : 0;
    }
    *it = with(*it, RT, ZG_A64_NONE, ZG_A64_NONE);
    return true;
}

static struct zg_a64 literal(uint32_t word) {
    static const uint8_t sizes[2][4] = {{4, 8, 4, 0}, {4, 8, 16, 0}};
    uint32_t opc = BITS(30, 2), is_vector = BITS(26, 1);
    if (is_vector && opc == 3) return nothing;
    bool is_prefetch = opc == 3;
    struct zg_a64 it = access(is_prefetch ? zg_a64_read : zg_a64_load, ZG_A64_NONE, sizes[is_vector][opc]);
    it.is_vector = is_vector;
    it.from_pc = true;
    if (!is_prefetch) it = with(it, RT, ZG_A64_NONE, ZG_A64_NONE);
    if (!is_vector && opc == 2) it.signed_to = 8;
    return updated(it, zg_a64_signed(word, 5, 19) * 4, zg_a64_stays);
}

// Table "Load/store register pair"; opc 3 is unprivileged.
static struct zg_a64 pair(uint32_t word) {
    uint32_t opc = BITS(30, 2), mode = BITS(23, 2);
    bool is_vector = BITS(26, 1), has_tag = !is_vector && opc == 1 && !LOADS;
    if (!is_vector && opc == 1 && !mode) return nothing;
    uint32_t bytes = is_vector ? (opc == 3 ? 16 : 4u << opc) : opc >= 2 || has_tag ? 8 : 4;
    struct zg_a64 it = with(access(LOADS ? zg_a64_load : zg_a64_store, RN, bytes), RT, RT2, ZG_A64_NONE);
    it.is_vector = is_vector;
    if (!is_vector && opc == 1 && LOADS) it.signed_to = 8;
    int64_t offset = zg_a64_signed(word, 15, 7) * (has_tag ? 16 : (int64_t)bytes);
    return updated(it, offset, mode == 1 ? zg_a64_after : mode == 3 ? zg_a64_before : zg_a64_stays);
}

// Atomic floating-point operations; bfloat16 if size is 0.
static struct zg_a64 atomic_float(uint32_t word) {
    uint32_t size = BITS(30, 2), operation = BITS(12, 4);
    bool acquires = BITS(23, 1);
    if (operation > 7 && (RT != 31 || acquires)) return nothing;
    return (operation & 7) >= 4 || !(operation & 7) ? another(false, RN, size ? 1u << size : 2) : nothing;
}

// Table "Atomic memory operations". ld64b and st64b access eight registers, 512 bits.
static struct zg_a64 atomic(uint32_t word) {
    uint32_t size = BITS(30, 2), operation = BITS(12, 4), bytes = 1u << size;
    bool acquires = BITS(23, 1), releases = BITS(22, 1);
    if (BITS(26, 1)) return atomic_float(word);
    if (operation <= zg_a64_swap) {
        struct zg_a64 it = with(access(zg_a64_modify, RN, bytes), RT, ZG_A64_NONE, RM);
        it.operation = (uint8_t)operation;
        return it;
    }
    if (operation == 12 && acquires && !releases && RM == 31) // ldapr
        return with(access(zg_a64_load, RN, bytes), RT, ZG_A64_NONE, ZG_A64_NONE);
    if (size == 3 && !acquires && !releases) {
        bool is_block = operation == 9 || operation == 13; // st64b, ld64b
        if (is_block && RM != 31) return nothing;
        if ((is_block || operation == 10 || operation == 11) && !(RT & 1) && RT <= 22)
            return another(operation == 13, RN, 64);
    }
    // Read-check-write instructions access 64 bits; bit 30 selects the software variant, not the size.
    if (size < 2 && operation >= 9 && operation <= 11) return another(false, RN, 8);
    return nothing;
}

// Load/store register: bits 29:27 are 111.
static struct zg_a64 one(uint32_t word) {
    struct zg_a64 it;
    bool is_known = of_one(word, &it), is_prefetch = is_known && !it.count;
    if (BITS(24, 1))
        return is_known ? updated(it, BITS(10, 12) * (int64_t)(it.bytes ? it.bytes : 8), zg_a64_stays) : nothing;
    uint32_t mode = BITS(10, 2);
    if (!BITS(21, 1)) {
        if (!is_known || (is_prefetch && mode) || (mode == 2 && BITS(26, 1))) return nothing;
        static const uint8_t updates[4] = {zg_a64_stays, zg_a64_after, zg_a64_stays, zg_a64_before};
        return updated(it, zg_a64_signed(word, 12, 9), updates[mode]);
    }
    if (mode == 0) return atomic(word);
    if (mode == 2) {
        uint32_t option = BITS(13, 3), scale = 0;
        if (!is_known || !(option & 2)) return nothing;
        while ((it.bytes ? it.bytes : 8u) >> (scale + 1)) scale++;
        if (RM != 31) it.index = (uint8_t)RM;
        it.extend = (uint8_t)option;
        it.shift = BITS(12, 1) ? (uint8_t)scale : 0;
        return it;
    }
    // ldraa, ldrab: the base is a signed pointer.
    if (BITS(30, 2) != 3 || BITS(26, 1)) return nothing;
    it = with(access(zg_a64_load, RN, 8), RT, ZG_A64_NONE, ZG_A64_NONE);
    uint32_t offset = BITS(22, 1) << 9 | BITS(12, 9);
    return updated(it, zg_a64_signed(offset, 0, 10) * 8, BITS(11, 1) ? zg_a64_before : zg_a64_stays);
}

// Table "Load/store memory tags": accesses to the tags of one granule (16 bytes) or two.
static struct zg_a64 tags(uint32_t word) {
    static const uint8_t updates[4] = {zg_a64_stays, zg_a64_after, zg_a64_stays, zg_a64_before};
    uint32_t opc = BITS(22, 2), mode = BITS(10, 2);
    bool is_load = !mode && opc & 1;
    if (!mode && opc != 1 && BITS(12, 9)) return nothing; // blocks of tags (ldgm, stgm, stzgm) have no offset
    if (!mode && opc != 1) return another(opc == 3, RN, 0);
    return updated(another(is_load, RN, opc & 2 ? 32 : 16), zg_a64_signed(word, 12, 9) * 16, updates[mode]);
}

// cpy and set: opc 0 to 2 is a copy, 3 is a set.
static struct zg_a64 copy_or_set(uint32_t word) {
    bool copies = BITS(22, 2) < 3, is_same = RT == RN || RT == RM || RN == RM;
    if (BITS(30, 2) || is_same || RT == 31 || (copies ? RM == 31 : BITS(14, 2) == 3)) return nothing;
    struct zg_a64 it = another(false, RT, 0);
    if (copies) it.kind = zg_a64_copy, it.index = (uint8_t)RM, it.status = (uint8_t)RN;
    return it;
}

// Ordered pairs (ldiapp, stilp) and single registers (ldapr, stlr), with or without write-back of the base.
static struct zg_a64 ordered_pair(uint32_t word) {
    uint32_t opc = BITS(22, 2);
    bool is_load = opc & 1, stays = BITS(12, 1), is_pair = opc < 2;
    int64_t bytes = INT64_C(1) << BITS(30, 2), step = is_pair ? 2 * bytes : bytes;
    if (BITS(13, 3) || BITS(30, 2) < 2 || (!is_pair && (RM || stays))) return nothing;
    struct zg_a64 it = access(is_load ? zg_a64_load : zg_a64_store, RN, (uint32_t)bytes);
    it = with(it, RT, is_pair ? RM : ZG_A64_NONE, ZG_A64_NONE);
    return stays ? it : updated(it, is_load ? step : -step, is_load ? zg_a64_after : zg_a64_before);
}

// Atomic operations on pairs of 64 bits (ldclrp, ldsetp, swpp), unprivileged ones (ldtadd, ldtclr, ldtset, swpt), and
// read-check-write instructions.
static struct zg_a64 ordered_atomic(uint32_t word) {
    uint32_t size = BITS(30, 2), operation = BITS(12, 4);
    bool is_checked = operation >= 9 && operation <= 11;
    switch (BITS(10, 2)) {
    case 0:
        if (RT == 31 || RM == 31 || (size && !is_checked)) return nothing;
        return is_checked || operation == 1 || operation == 3 || operation == 8 ? another(false, RN, 16) : nothing;
    case 1: {
        if (operation != 0 && operation != 1 && operation != 3 && operation != 8) return nothing;
        struct zg_a64 it = with(access(zg_a64_modify, RN, size ? 8 : 4), RT, ZG_A64_NONE, RM);
        it.operation = (uint8_t)operation;
        return it;
    }
    case 2: return operation ? nothing : another(false, RN, 8); // rcwcas
    }
    return operation || RT & 1 || RM & 1 ? nothing : another(false, RN, 16); // rcwcasp
}

// Bits 29:24 are 011001, or 011101 for vectors and copies: ordered accesses with an offset, tags, memory copies,
// 128-bit pairs.
static struct zg_a64 ordered(uint32_t word) {
    uint32_t size = BITS(30, 2), mode = BITS(10, 2), opc = BITS(22, 2);
    bool is_vector = BITS(26, 1);
    if (BITS(21, 1)) return is_vector ? nothing : size == 3 ? tags(word) : size < 2 ? ordered_atomic(word) : nothing;
    if (mode == 1) return copy_or_set(word);
    if (mode == (is_vector ? 2 : 0)) {
        struct zg_a64 it;
        bool is_known = of_one(word, &it) && it.count;
        return is_known ? updated(it, zg_a64_signed(word, 12, 9), zg_a64_stays) : nothing;
    }
    if (is_vector) return nothing;
    if (mode == 2) return ordered_pair(word);
    bool is_shadow_store = size == 3 && !opc && RM == 31 && !BITS(13, 3); // gcsstr, gcssttr
    return is_shadow_store ? with(access(zg_a64_store, RN, 8), RT, ZG_A64_NONE, ZG_A64_NONE) : nothing;
}

static struct zg_a64 load_or_store(uint32_t word) {
    switch (BITS(27, 3)) {
    case 1: // 001
        if (BITS(26, 1)) return BITS(25, 1) ? nothing : structures(word);
        return BITS(24, 2) == 0 ? exclusive(word) : BITS(24, 2) == 1 ? unprivileged_exclusive(word) : nothing;
    case 3: return BITS(24, 2) == 0 ? literal(word) : BITS(24, 2) == 1 ? ordered(word) : nothing;
    case 5: return pair(word);
    case 7: return BITS(25, 1) ? nothing : one(word);
    }
    return nothing;
}

// SVE loads and stores (tables "SVE Memory"): decodes only the direction and the base register. The base of a gather or
// scatter may be a vector, and is then ZG_A64_NONE. An index register is not decoded.
static struct zg_a64 scalable(uint32_t word) {
    uint32_t top = BITS(29, 3), form = BITS(21, 2), mode = BITS(13, 3);
    if (top < 4) return nothing;
    bool from_vector = false;
    if (top == 7) from_vector = mode == 5 ? form >= 2 : mode == 1;
    else if (top == 4) from_vector = form == 1 ? mode >= 4 : !form && mode >= 4 && mode != 6;
    else if (top == 6) from_vector = form <= 1 && mode >= 4;
    return another(top != 7, from_vector ? ZG_A64_NONE : RN, 0);
}

// Loads and stores of several vectors and of SME's array (table "SME encodings").
static struct zg_a64 multiple(uint32_t word) {
    uint32_t top = BITS(25, 7);
    bool is_array = top == 0x70, is_store = BITS(21, 1);
    if (!is_array && (top != 0x50 || BITS(23, 1))) return nothing;
    return another(!is_store, RN, 0);
}

// DC and IC instructions that take an address (section C5.3).
static struct zg_a64 of_cache(uint32_t word) {
    uint32_t op1 = BITS(16, 3), line = BITS(8, 4), op2 = BITS(5, 3);
    if (BITS(12, 4) != 7 || op1 != 3) return nothing;
    if (line == 4 && (op2 == 1 || op2 == 3 || op2 == 4)) return another(false, RT, 64); // dc zva, gva, gzva
    bool cleans = line >= 10 && line <= 14 && (op2 == 1 || ((op2 == 3 || op2 == 5) && line != 11));
    cleans |= (line == 11 || line == 15) && (op2 == 0 || op2 == 7);
    return cleans || (line == 5 && op2 == 1) ? another(true, RT, 0) : nothing;
}

// Table "Unconditional branch (register)". Bit 11 is set if the branch authenticates its target, bit 24 if a register
// holds the modifier.
static struct zg_a64 branch(uint32_t word) {
    static const uint8_t kinds[3] = {zg_a64_jump, zg_a64_call, zg_a64_return};
    uint32_t opc = BITS(21, 4), op3 = BITS(10, 6), op4 = BITS(0, 5);
    bool authenticates = op3 == 2 || op3 == 3;
    if (RM != 31 || (opc & 7) > 2 || (op3 && !authenticates)) return nothing;
    if (opc & 8 ? !authenticates || opc == 10 : authenticates ? op4 != 31 && opc != 2 : op4 != 0) return nothing;
    if (opc == 2 && authenticates && RN != 31) return nothing;
    return access((enum zg_a64_kind)kinds[opc & 7], opc == 2 && authenticates ? 30 : RN, 0);
}

struct zg_a64 zg_a64_decode(uint32_t word) {
    if ((word & 0x0a000000) == 0x08000000) return load_or_store(word);
    if ((word & 0x1e000000) == 0x04000000) return scalable(word);
    if ((word & 0x9e000000) == 0x80000000) return multiple(word);
    if ((word & 0xfff80000) == 0xd5080000) return of_cache(word);
    if ((word & 0xfe000000) == 0xd6000000) return branch(word);
    return nothing;
}

#endif

#if defined(__aarch64__)

#include "platform/arch.h"

static struct zg_a64 decode_bytes(const uint8_t *code, int count) {
    uint32_t word = 0; // udf, an undefined instruction
    if (count >= 4) __builtin_memcpy(&word, code, sizeof word);
    return zg_a64_decode(word);
}

enum zg_fault_access zg_arch_decode_access(const uint8_t *code, int count) {
    switch (decode_bytes(code, count).kind) {
    case zg_a64_other:
    case zg_a64_copy: break;
    case zg_a64_load:
    case zg_a64_read: return zg_fault_read;
    case zg_a64_load_exclusive: // begins an atomic update, whose store writes to the same address
    case zg_a64_store:
    case zg_a64_store_exclusive:
    case zg_a64_modify:
    case zg_a64_compare:
    case zg_a64_write: return zg_fault_write;
    case zg_a64_jump:
    case zg_a64_call:
    case zg_a64_return: return zg_fault_execute;
    }
    return zg_fault_unknown;
}

bool zg_arch_may_load_pointer(const uint8_t *code, int count) {
    struct zg_a64 it = decode_bytes(code, count);
    bool is_load = it.kind == zg_a64_load || it.kind == zg_a64_load_exclusive;
    return count < 4 || (is_load && it.bytes == 8 && !it.is_vector);
}

int zg_arch_operand_registers(const uint8_t *code, int count, const struct zg_registers *registers,
                              uint64_t values[2]) {
    struct zg_a64 it = decode_bytes(code, count);
    int used = 0;
    // A post-index register is not part of the address. Base 31 of a branch is the zero register.
    if (it.index != ZG_A64_NONE && it.update != zg_a64_after) values[used++] = registers->value[it.index];
    bool jumps = it.kind >= zg_a64_jump;
    if (it.base != ZG_A64_NONE && !(jumps && it.base == 31)) values[used++] = registers->value[it.base];
    return used;
}

bool zg_arch_loaded_from(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t value,
                         uint64_t *base, uint64_t *place) {
    struct zg_a64 it = decode_bytes(code, count);
    if (it.kind != zg_a64_load || it.count != 1 || it.bytes != 8 || it.is_vector || it.from_pc || it.first == 31)
        return false;
    if (it.update != zg_a64_stays || it.base == it.first || it.index == it.first) return false;
    if (it.index != ZG_A64_NONE && it.extend != ZG_A64_UXTX) return false;
    if (registers->value[it.first] != value) return false;
    *base = registers->value[it.base];
    *place = *base + (uint64_t)it.offset;
    if (it.index != ZG_A64_NONE) *place += registers->value[it.index] << it.shift;
    return true;
}

// No AArch64 branch reads its target from memory.
bool zg_arch_call_target_place(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t *place) {
    (void)code, (void)count, (void)registers, (void)place;
    return false;
}

#endif
