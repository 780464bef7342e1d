// Reader of .eh_frame: finds the entry by the binary search table, runs its program up to a pc, applies the row.
// No lock, no allocation, no state. Hot path on a miss of the rule cache, and signal context.

#include "stacks/unwind_cfi.h"

// clang-format off
enum { // pointer encodings
    ZG_PE_omit = 0xff, ZG_PE_uleb = 0x01, ZG_PE_u2 = 0x02, ZG_PE_u4 = 0x03, ZG_PE_u8 = 0x04, ZG_PE_sleb = 0x09,
    ZG_PE_s2 = 0x0a, ZG_PE_s4 = 0x0b, ZG_PE_s8 = 0x0c, ZG_PE_pcrel = 0x10, ZG_PE_datarel = 0x30, ZG_PE_indirect = 0x80,
};
// clang-format on

enum { ZG_REMEMBERED_ROWS = 2 }; // compilers need one

// The bits of a LEB128 number of either kind; how many they are, and whether the highest one is set.
static uint64_t read_leb(const uint8_t **at, int *bits, bool *is_high_set) {
    uint64_t value = 0;
    uint8_t byte;
    *bits = 0;
    do {
        byte = *(*at)++;
        if (*bits < 64) value |= (uint64_t)(byte & 0x7f) << *bits;
        *bits += 7;
    } while (byte & 0x80);
    *is_high_set = byte & 0x40;
    return value;
}

static uint64_t read_uleb(const uint8_t **at) {
    int bits;
    bool is_high_set;
    return read_leb(at, &bits, &is_high_set);
}

static int64_t read_sleb(const uint8_t **at) {
    int bits;
    bool is_negative;
    uint64_t value = read_leb(at, &bits, &is_negative);
    if (bits < 64 && is_negative) value |= ~UINT64_C(0) << bits;
    return (int64_t)value;
}

#define ZG_READ(type, name)                                                                                            \
    static type read_##name(const uint8_t **at) {                                                                      \
        type value;                                                                                                    \
        __builtin_memcpy(&value, *at, sizeof value);                                                                   \
        *at += sizeof value;                                                                                           \
        return value;                                                                                                  \
    }
ZG_READ(uint16_t, u16)
ZG_READ(uint32_t, u32)
ZG_READ(int32_t, s32)
ZG_READ(uint64_t, u64)

static uint64_t read_encoded(const uint8_t **at, uint8_t encoding, uint64_t data_base) {
    uint64_t place = (uint64_t)*at, value;
    if (encoding == ZG_PE_omit) return 0;
    switch (encoding & 0x0f) {
    case ZG_PE_uleb: value = read_uleb(at); break;
    case ZG_PE_sleb: value = (uint64_t)read_sleb(at); break;
    case ZG_PE_u2: value = read_u16(at); break;
    case ZG_PE_s2: value = (uint64_t)(int64_t)(int16_t)read_u16(at); break;
    case ZG_PE_u4: value = read_u32(at); break;
    case ZG_PE_s4: value = (uint64_t)(int64_t)read_s32(at); break;
    default: value = read_u64(at); break;
    }
    if (!value) return 0;
    if ((encoding & 0x70) == ZG_PE_pcrel) value += place;
    if ((encoding & 0x70) == ZG_PE_datarel) value += data_base;
    if (encoding & ZG_PE_indirect) {
        const uint8_t *pointer = (const uint8_t *)value;
        value = read_u64(&pointer);
    }
    return value;
}

struct cie {
    uint64_t code_factor;
    int64_t data_factor;
    uint32_t return_register;
    uint8_t pointer_encoding;
    bool has_augmentation, signal_frame;
    const uint8_t *program, *end;
};

static bool read_cie(const uint8_t *at, struct cie *cie) {
    *cie = (struct cie){.pointer_encoding = 0};
    uint64_t length = read_u32(&at);
    if (length == 0xffffffffu) length = read_u64(&at);
    cie->end = at + length;
    if (read_u32(&at) != 0) return false; // not a CIE
    uint8_t version = *at++;
    if (version != 1 && version != 3) return false;
    const uint8_t *augmentation = at;
    while (*at) at++;
    at++;
    cie->code_factor = read_uleb(&at);
    cie->data_factor = read_sleb(&at);
    cie->return_register = version == 1 ? *at++ : (uint32_t)read_uleb(&at);
    if (*augmentation == 'z') {
        cie->has_augmentation = true;
        uint64_t bytes = read_uleb(&at);
        const uint8_t *behind = at + bytes;
        for (augmentation++; *augmentation; augmentation++) {
            if (*augmentation == 'R') cie->pointer_encoding = *at++;
            else if (*augmentation == 'S') cie->signal_frame = true;
            else if (*augmentation == 'P') {
                uint8_t encoding = *at++;
                read_encoded(&at, encoding & (uint8_t)~ZG_PE_indirect, 0);
            } else if (*augmentation == 'L') at++;
        }
        at = behind;
    } else if (*augmentation) {
        return false; // an old augmentation without its length
    }
    cie->program = at;
    return cie->return_register < ZG_ARCH_REGISTER_COUNT;
}

// Finds the FDE for `pc` through the sorted table of .eh_frame_hdr. NULL where there is none.
static const uint8_t *find_fde(const uint8_t *header, uint64_t pc) {
    const uint8_t *at = header + 4;
    if (header[0] != 1 || header[3] != (ZG_PE_datarel | ZG_PE_s4)) return NULL;
    read_encoded(&at, header[1], (uint64_t)header); // eh_frame
    uint64_t count = read_encoded(&at, header[2], (uint64_t)header);
    if (!count) return NULL;
    struct entry {
        int32_t start, fde;
    };
    const struct entry *table = (const void *)at;
    int64_t wanted = (int64_t)(pc - (uint64_t)header);
    if (wanted < table[0].start) return NULL;
    uint64_t low = 0, high = count; // table[low].start <= wanted < table[high].start
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (table[middle].start <= wanted) low = middle;
        else high = middle;
    }
    return header + table[low].fde;
}

static struct zg_cfi_rule rule_of(enum zg_cfi_how how, int64_t value) {
    struct zg_cfi_rule rule = {.how = (uint8_t)how};
    rule.value = (int32_t)((uint32_t)value << 3) >> 3; // of a broken program only the low part
    return rule;
}

static void set_rule(struct zg_cfi_row *row, uint64_t reg, enum zg_cfi_how how, int64_t value) {
    if (reg < ZG_ARCH_REGISTER_COUNT) row->registers[reg] = rule_of(how, value);
}

static int64_t skip_expression(const struct zg_cfi_row *row, const uint8_t **at) {
    const uint8_t *expression = *at;
    uint64_t bytes = read_uleb(at);
    *at += bytes;
    return expression - row->table;
}

static const uint8_t *expression_of(const struct zg_cfi_row *row, const struct zg_cfi_rule *rule) {
    return row->table + rule->value;
}

// Factored offsets of a broken program wrap around.
static int64_t scaled(uint64_t factored, const struct cie *cie) {
    return (int64_t)(factored * (uint64_t)cie->data_factor);
}

// Runs a call frame program from `at` until its location counter passes `pc`.
static bool run_program(const struct cie *cie, const uint8_t *at, const uint8_t *end, uint64_t location, uint64_t pc,
                        const struct zg_cfi_row *initial, struct zg_cfi_row *row) {
    struct zg_cfi_row remembered[ZG_REMEMBERED_ROWS];
    int depth = 0;
    while (at < end) {
        uint8_t op = *at++;
        uint64_t low = op & 0x3f, reg;
        switch (op >> 6) {
        case 1: location += low * cie->code_factor; goto moved;
        case 2: set_rule(row, low, zg_cfi_at_offset, scaled(read_uleb(&at), cie)); continue;
        case 3:
            if (low < ZG_ARCH_REGISTER_COUNT) row->registers[low] = initial->registers[low];
            continue;
        default: break;
        }
        switch (op) {
        case 0x00: break; // nop
        case 0x01: location = read_encoded(&at, cie->pointer_encoding, 0); goto moved;
        case 0x02: location += *at++ * cie->code_factor; goto moved;
        case 0x03: location += read_u16(&at) * cie->code_factor; goto moved;
        case 0x04: location += read_u32(&at) * cie->code_factor; goto moved;
        case 0x05: // offset_extended
            reg = read_uleb(&at);
            set_rule(row, reg, zg_cfi_at_offset, scaled(read_uleb(&at), cie));
            break;
        case 0x06: // restore_extended
            reg = read_uleb(&at);
            if (reg < ZG_ARCH_REGISTER_COUNT) row->registers[reg] = initial->registers[reg];
            break;
        case 0x07: set_rule(row, read_uleb(&at), zg_cfi_undefined, 0); break;
        case 0x08: set_rule(row, read_uleb(&at), zg_cfi_same, 0); break;
        case 0x09: // register
            reg = read_uleb(&at);
            set_rule(row, reg, zg_cfi_in_register, (int64_t)read_uleb(&at));
            break;
        case 0x0a: // remember_state
            if (depth == ZG_REMEMBERED_ROWS) return false;
            remembered[depth++] = *row;
            break;
        case 0x0b: // restore_state
            if (depth == 0) return false;
            *row = remembered[--depth];
            break;
        case 0x0c: // def_cfa
            row->cfa_register = (uint32_t)read_uleb(&at);
            row->cfa = rule_of(zg_cfi_in_register, (int64_t)read_uleb(&at));
            break;
        case 0x0d: row->cfa_register = (uint32_t)read_uleb(&at); break;
        case 0x0e:
            row->cfa = rule_of(zg_cfi_in_register, (int64_t)read_uleb(&at));
            break; // a broken program's was an expression
        case 0x0f: row->cfa = rule_of(zg_cfi_is_expression, skip_expression(row, &at)); break;
        case 0x10: // expression
            reg = read_uleb(&at);
            set_rule(row, reg, zg_cfi_at_expression, skip_expression(row, &at));
            break;
        case 0x11: // offset_extended_sf
            reg = read_uleb(&at);
            set_rule(row, reg, zg_cfi_at_offset, scaled((uint64_t)read_sleb(&at), cie));
            break;
        case 0x12: // def_cfa_sf
            row->cfa_register = (uint32_t)read_uleb(&at);
            row->cfa = rule_of(zg_cfi_in_register, scaled((uint64_t)read_sleb(&at), cie));
            break;
        case 0x13: row->cfa = rule_of(zg_cfi_in_register, scaled((uint64_t)read_sleb(&at), cie)); break;
        case 0x14: // val_offset
            reg = read_uleb(&at);
            set_rule(row, reg, zg_cfi_is_offset, scaled(read_uleb(&at), cie));
            break;
        case 0x15: // val_offset_sf
            reg = read_uleb(&at);
            set_rule(row, reg, zg_cfi_is_offset, scaled((uint64_t)read_sleb(&at), cie));
            break;
        case 0x16: // val_expression
            reg = read_uleb(&at);
            set_rule(row, reg, zg_cfi_is_expression, skip_expression(row, &at));
            break;
        // AArch64: return address signing toggles, in one of two ways; the signature is stripped.
        case 0x2c:
        case 0x2d: break;
        case 0x2e: read_uleb(&at); break; // GNU_args_size
        default: return false;            // unknown: better no frame than a wrong one
        }
        continue;
    moved:
        if (location > pc) return true;
    }
    return true;
}

bool zg_cfi_find_row(const struct zg_module *module, uint64_t pc, struct zg_cfi_row *row) {
    if (!module->eh_frame_hdr) return false;
    const uint8_t *at = find_fde(module->eh_frame_hdr, pc);
    if (!at) return false;
    uint64_t length = read_u32(&at);
    if (length == 0xffffffffu) length = read_u64(&at);
    const uint8_t *end = at + length, *place = at;
    uint32_t back = read_u32(&at);
    struct cie cie;
    if (!back || !read_cie(place - back, &cie)) return false;
    uint64_t start = read_encoded(&at, cie.pointer_encoding, 0);
    uint64_t bytes = read_encoded(&at, cie.pointer_encoding & 0x0f, 0);
    if (pc < start || pc >= start + bytes) return false;
    if (cie.has_augmentation) {
        uint64_t augmentation = read_uleb(&at);
        at += augmentation;
    }
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) row->registers[i] = rule_of(zg_cfi_same, 0);
    row->cfa = rule_of(zg_cfi_in_register, 0);
    row->cfa_register = ZG_ARCH_SP;
    row->return_register = cie.return_register;
    row->table = module->eh_frame_hdr;
    row->signal_frame = cie.signal_frame;
    if (!run_program(&cie, cie.program, cie.end, 0, UINT64_MAX, row, row)) return false;
    struct zg_cfi_row initial = *row;
    return run_program(&cie, at, end, start, pc, &initial, row);
}

static bool is_known(const struct zg_registers *registers, uint64_t reg, uint64_t *value) {
    if (reg == ZG_ARCH_RA && ZG_ARCH_RA == ZG_ARCH_REGISTER_COUNT - 1 && !(registers->known >> reg & 1)) {
        *value = registers->pc; // x86-64: the return address column is the pc itself
        return true;
    }
    if (reg >= ZG_ARCH_REGISTER_COUNT || !(registers->known >> reg & 1)) return false;
    *value = registers->value[reg];
    return true;
}

// Evaluates a DWARF expression. The subset that compilers and libc use in frame information.
static bool evaluate(const uint8_t *at, const struct zg_registers *registers, bool push_cfa, uint64_t cfa,
                     zg_cfi_reader read, void *context, uint64_t *result) {
    uint64_t stack[16], word;
    int depth = 0;
    uint64_t bytes = read_uleb(&at);
    const uint8_t *end = at + bytes;
    if (push_cfa) stack[depth++] = cfa;
#define ZG_PUSH(v)                                                                                                     \
    do {                                                                                                               \
        if (depth == 16) return false;                                                                                 \
        uint64_t pushed = (uint64_t)(v);                                                                               \
        stack[depth++] = pushed;                                                                                       \
    } while (0)
#define ZG_NEED(n)                                                                                                     \
    if (depth < (n)) return false
    while (at < end) {
        uint8_t op = *at++;
        if (op >= 0x30 && op <= 0x4f) { // lit0..31
            ZG_PUSH(op - 0x30);
        } else if (op >= 0x70 && op <= 0x8f) { // breg0..31
            if (!is_known(registers, op - 0x70u, &word)) return false;
            ZG_PUSH(word + (uint64_t)read_sleb(&at));
        } else {
            switch (op) {
            case 0x06: // deref
                ZG_NEED(1);
                if (!read(context, stack[depth - 1], &word)) return false;
                stack[depth - 1] = word;
                break;
            case 0x08: ZG_PUSH(*at++); break;
            case 0x09: ZG_PUSH((int64_t)(int8_t)*at++); break;
            case 0x0a: ZG_PUSH(read_u16(&at)); break;
            case 0x0b: ZG_PUSH((int64_t)(int16_t)read_u16(&at)); break;
            case 0x0c: ZG_PUSH(read_u32(&at)); break;
            case 0x0d: ZG_PUSH((int64_t)read_s32(&at)); break;
            case 0x0e:
            case 0x0f: ZG_PUSH(read_u64(&at)); break;
            case 0x10: ZG_PUSH(read_uleb(&at)); break;
            case 0x11: ZG_PUSH(read_sleb(&at)); break;
            // clang-format off
            case 0x12: ZG_NEED(1); ZG_PUSH(stack[depth - 1]); break; // dup
            case 0x13: ZG_NEED(1); depth--; break;                   // drop
            case 0x1a: ZG_NEED(2); depth--; stack[depth - 1] &= stack[depth]; break;
            case 0x1c: ZG_NEED(2); depth--; stack[depth - 1] -= stack[depth]; break;
            case 0x1e: ZG_NEED(2); depth--; stack[depth - 1] *= stack[depth]; break;
            case 0x21: ZG_NEED(2); depth--; stack[depth - 1] |= stack[depth]; break;
            case 0x22: ZG_NEED(2); depth--; stack[depth - 1] += stack[depth]; break;
            case 0x23: ZG_NEED(1); stack[depth - 1] += read_uleb(&at); break; // plus_uconst
            case 0x24: ZG_NEED(2); depth--; stack[depth - 1] <<= stack[depth] & 63; break;
            case 0x25: ZG_NEED(2); depth--; stack[depth - 1] >>= stack[depth] & 63; break;
            case 0x2a: ZG_NEED(2); depth--; stack[depth - 1] = (int64_t)stack[depth - 1] >= (int64_t)stack[depth]; break;
            // clang-format on
            case 0x96: break; // nop
            default: return false;
            }
        }
    }
#undef ZG_PUSH
#undef ZG_NEED
    if (!depth) return false;
    *result = stack[depth - 1];
    return true;
}

// Not in line: its frame is not there while the row is being found.
ZG_NOINLINE bool zg_cfi_step(const struct zg_cfi_row *row, struct zg_registers *registers, zg_cfi_reader read,
                             void *context) {
    uint64_t cfa;
    if (row->cfa.how == zg_cfi_is_expression) {
        if (!evaluate(expression_of(row, &row->cfa), registers, false, 0, read, context, &cfa)) return false;
    } else {
        if (!is_known(registers, row->cfa_register, &cfa)) return false;
        cfa += (uint64_t)row->cfa.value;
        if (row->cfa_register == ZG_ARCH_SP && !zg_arch_is_sp_exact(registers->value[ZG_ARCH_SP])) {
            // A bound alone: the frame's own record leads to its end.
            const struct zg_cfi_rule *record = &row->registers[ZG_ARCH_FP];
            if (record->how != zg_cfi_at_offset || !is_known(registers, ZG_ARCH_FP, &cfa)) return false;
            cfa -= (uint64_t)record->value;
        }
    }
    struct zg_registers caller = {.known = 0};
    for (uint32_t i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) {
        const struct zg_cfi_rule *rule = &row->registers[i];
        uint64_t value = 0;
        bool known = false;
        switch ((enum zg_cfi_how)rule->how) {
        case zg_cfi_same: known = i != ZG_ARCH_SP && is_known(registers, i, &value); break;
        case zg_cfi_undefined: break;
        case zg_cfi_at_offset: known = read(context, cfa + (uint64_t)rule->value, &value); break;
        case zg_cfi_is_offset: value = cfa + (uint64_t)rule->value, known = true; break;
        case zg_cfi_in_register: known = is_known(registers, (uint64_t)rule->value, &value); break;
        case zg_cfi_at_expression:
            known = evaluate(expression_of(row, rule), registers, true, cfa, read, context, &value) &&
                    read(context, value, &value);
            break;
        case zg_cfi_is_expression:
            known = evaluate(expression_of(row, rule), registers, true, cfa, read, context, &value);
            break;
        }
        if (i == ZG_ARCH_SP && !known) value = cfa, known = true;
        if (!known) continue;
        caller.value[i] = value;
        caller.known |= UINT64_C(1) << i;
    }
    if (row->registers[row->return_register].how == zg_cfi_undefined) return false;
    if (!(caller.known >> row->return_register & 1)) return false;
    caller.pc = zg_arch_strip(caller.value[row->return_register]);
    if (ZG_ARCH_RA == ZG_ARCH_REGISTER_COUNT - 1) caller.known &= ~(UINT64_C(1) << ZG_ARCH_RA);
    bool moved = caller.value[ZG_ARCH_SP] != registers->value[ZG_ARCH_SP] || caller.pc != registers->pc;
    *registers = caller;
    return moved;
}
