// Reads .eh_frame: finds a function's entry (FDE) by the binary search table, runs the entry's program up to a pc, and
// applies the resulting row. No lock, no allocation, no state. Hot path on a miss of the rule cache, and signal
// context.

#include "stacks/unwind_cfi.h"

// clang-format off
enum { // pointer encodings
    ZG_PE_omit = 0xff, ZG_PE_uleb = 0x01, ZG_PE_u2 = 0x02, ZG_PE_u4 = 0x03, ZG_PE_u8 = 0x04, ZG_PE_sleb = 0x09,
    ZG_PE_s2 = 0x0a, ZG_PE_s4 = 0x0b, ZG_PE_s8 = 0x0c, ZG_PE_pcrel = 0x10, ZG_PE_datarel = 0x30, ZG_PE_indirect = 0x80,
};
// clang-format on

enum { ZG_REMEMBERED_ROWS = 2 }; // compilers use at most one

// Reads a LEB128 number, signed or unsigned. `*bits`: the number of its bits. `*is_high_set`: whether the highest bit
// is set.
static uint64_t read_leb(const uint8_t **at, int *bits, bool *is_high_set) {
    uint64_t value = 0;
    uint8_t byte;
    *bits = 7;
    byte = *(*at)++;
    *is_high_set = byte & 0x40;
    if (ZG_LIKELY(!(byte & 0x80))) return byte;
    value = byte & 0x7f;
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

// Reads an unsigned LEB128 number; fast for numbers of up to 14 bits.
ZG_INLINE uint64_t read_short_uleb(const uint8_t **at) {
    enum { MORE = 0x80 };
    const uint8_t *bytes = *at;
    uint64_t value = bytes[0];
    if (ZG_LIKELY(value < MORE)) return *at = bytes + 1, value;
    if (ZG_UNLIKELY(bytes[1] >= MORE)) return read_uleb(at);
    return *at = bytes + 2, value - MORE + bytes[1] * UINT64_C(128);
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
        return false; // an augmentation of unknown length (its string does not begin with "z")
    }
    cie->program = at;
    return cie->return_register < ZG_ARCH_REGISTER_COUNT;
}

// Finds the FDE for `pc` through the sorted table of .eh_frame_hdr. NULL if there is none.
static const uint8_t *find_fde(const uint8_t *header, uint64_t pc) {
    const uint8_t *at = header + 4;
    if (header[0] != 1 || header[3] != (ZG_PE_datarel | ZG_PE_s4)) return NULL;
    read_encoded(&at, header[1], (uint64_t)header); // skips the pointer to .eh_frame
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
    rule.value = (int32_t)((uint32_t)value << 3) >> 3; // keeps only the low part of a malformed program's value
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

// Multiplies by the data alignment factor. Offsets of a malformed program wrap around.
static int64_t scaled(uint64_t factored, const struct cie *cie) {
    return (int64_t)(factored * (uint64_t)cie->data_factor);
}

// State of a running call frame program (DWARF 5, 6.4.2).
struct program {
    const struct cie *cie;
    const uint8_t *at, *end;
    uint64_t location;                // address from which the following rows apply
    const struct zg_cfi_row *initial; // row after the CIE's initial instructions
    struct zg_cfi_row *row;
    struct zg_cfi_row remembered[ZG_REMEMBERED_ROWS];
    int depth; // number of remembered rows
};

static void restore(struct program *program, uint64_t reg) {
    if (reg < ZG_ARCH_REGISTER_COUNT) program->row->registers[reg] = program->initial->registers[reg];
}

// Runs an operation that advances the location. False for any other operation.
static bool advance(struct program *program, uint8_t op) {
    const struct cie *cie = program->cie;
    switch (op) {
    case 0x01: program->location = read_encoded(&program->at, cie->pointer_encoding, 0); return true;
    case 0x02: program->location += *program->at++ * cie->code_factor; return true;
    case 0x03: program->location += read_u16(&program->at) * cie->code_factor; return true;
    case 0x04: program->location += read_u32(&program->at) * cie->code_factor; return true;
    default:
        if (op >> 6 != 1) return false;
        program->location += (op & 0x3f) * cie->code_factor;
        return true;
    }
}

// Runs an operation that defines the canonical frame address. False for any other operation.
static bool define_cfa(struct program *program, uint8_t op) {
    struct zg_cfi_row *row = program->row;
    const uint8_t **at = &program->at;
    switch (op) {
    case 0x0c: // def_cfa
        row->cfa_register = (uint32_t)read_uleb(at);
        row->cfa = rule_of(zg_cfi_in_register, (int64_t)read_uleb(at));
        return true;
    case 0x0d: row->cfa_register = (uint32_t)read_uleb(at); return true;
    case 0x0f: row->cfa = rule_of(zg_cfi_is_expression, skip_expression(row, at)); return true;
    case 0x12: // def_cfa_sf
        row->cfa_register = (uint32_t)read_uleb(at);
        row->cfa = rule_of(zg_cfi_in_register, scaled((uint64_t)read_sleb(at), program->cie));
        return true;
    case 0x13: row->cfa = rule_of(zg_cfi_in_register, scaled((uint64_t)read_sleb(at), program->cie)); return true;
    default: return false;
    }
}

// Runs an operation that sets the rule of one register, whose number follows the opcode. False for any other operation.
static bool define_register(struct program *program, uint8_t op) {
    struct zg_cfi_row *row = program->row;
    const struct cie *cie = program->cie;
    const uint8_t **at = &program->at;
    if (op < 0x05 || op > 0x16 || (op >= 0x0a && op <= 0x0f) || op == 0x12 || op == 0x13) return false;
    uint64_t reg = read_uleb(at);
    switch (op) {
    case 0x05: set_rule(row, reg, zg_cfi_at_offset, scaled(read_uleb(at), cie)); break; // offset_extended
    case 0x06: restore(program, reg); break;                                            // restore_extended
    case 0x07: set_rule(row, reg, zg_cfi_undefined, 0); break;
    case 0x08: set_rule(row, reg, zg_cfi_same, 0); break;
    case 0x09: set_rule(row, reg, zg_cfi_in_register, (int64_t)read_uleb(at)); break; // register
    case 0x10: set_rule(row, reg, zg_cfi_at_expression, skip_expression(row, at)); break;
    case 0x11: set_rule(row, reg, zg_cfi_at_offset, scaled((uint64_t)read_sleb(at), cie)); break; // …_extended_sf
    case 0x14: set_rule(row, reg, zg_cfi_is_offset, scaled(read_uleb(at), cie)); break;           // val_offset
    case 0x15: set_rule(row, reg, zg_cfi_is_offset, scaled((uint64_t)read_sleb(at), cie)); break; // val_offset_sf
    case 0x16: set_rule(row, reg, zg_cfi_is_expression, skip_expression(row, at)); break;         // val_expression
    }
    return true;
}

// Runs the remaining operations. False for an unknown operation, or one that run_program has refused: it is better to
// report no frame than a wrong one.
static bool run_other(struct program *program, uint8_t op) {
    switch (op) {
    // The two operations that toggle AArch64's return address signing. Signatures are stripped anyway.
    case 0x2c:
    case 0x2d: return true;
    case 0x2e: read_uleb(&program->at); return true; // GNU_args_size
    default: return false;
    }
}

// Runs one operation of any kind.
static ZG_NOINLINE bool run_operation(struct program *program) {
    uint8_t op = *program->at++;
    if (op >> 6 == 2)
        set_rule(program->row, op & 0x3f, zg_cfi_at_offset, scaled(read_uleb(&program->at), program->cie));
    else if (op >> 6 == 3) restore(program, op & 0x3f);
    else
        return advance(program, op) || define_cfa(program, op) || define_register(program, op) ||
               run_other(program, op);
    return true;
}

// Runs the program until its location passes `pc`. The programs of large functions have hundreds of operations, nearly
// all of these six kinds: they are run here, with the program's state in registers.
static bool run_program(struct program *program, uint64_t pc) {
    enum { NOP, ADVANCE, OFFSET, REMEMBER_STATE = 0x0a, RESTORE_STATE = 0x0b, DEF_CFA_OFFSET = 0x0e, LONG = 0x80 };
    const uint8_t *at = program->at, *end = program->end;
    uint64_t location = program->location, code_factor = program->cie->code_factor;
    while (at < end) {
        uint8_t op = *at;
        if (ZG_LIKELY(op >> 6 == ADVANCE)) {
            at++;
            location += (op & 0x3f) * code_factor;
            if (location > pc) return true;
        } else if (op == DEF_CFA_OFFSET) {
            // A malformed program may set the CFA's offset while the CFA is an expression. The CFA rule then becomes a
            // register rule again.
            at++;
            program->row->cfa = rule_of(zg_cfi_in_register, (int64_t)read_short_uleb(&at));
        } else if (op >> 6 == OFFSET && at[1] < LONG) {
            set_rule(program->row, op & 0x3f, zg_cfi_at_offset, scaled(at[1], program->cie));
            at += 2;
        } else if (op == REMEMBER_STATE && program->depth < ZG_REMEMBERED_ROWS) {
            program->remembered[program->depth++] = *program->row;
            at++;
        } else if (op == RESTORE_STATE && program->depth) {
            *program->row = program->remembered[--program->depth];
            at++;
        } else if (op == NOP) {
            at++;
        } else {
            program->at = at, program->location = location;
            if (!run_operation(program)) return false;
            at = program->at, location = program->location;
            if (location > pc) return true;
        }
    }
    return true;
}

uint64_t zg_cfi_start_of(const uint8_t *frame) {
    struct cie cie;
    const uint8_t *at = frame + sizeof(uint32_t), *place = at;
    uint32_t back = read_u32(&at);
    return read_cie(place - back, &cie) ? read_encoded(&at, cie.pointer_encoding, 0) : 0;
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
    struct program program = {.cie = &cie, .at = cie.program, .end = cie.end, .initial = row, .row = row};
    if (!run_program(&program, UINT64_MAX)) return false;
    struct zg_cfi_row initial = *row;
    program.at = at, program.end = end, program.location = start, program.initial = &initial, program.depth = 0;
    return run_program(&program, pc);
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

// State of a DWARF expression's evaluation.
struct expression {
    const uint8_t *at;
    const struct zg_registers *registers;
    zg_cfi_reader read;
    void *context;
    uint64_t stack[16];
    int depth;
};

static bool push(struct expression *expression, uint64_t word) {
    if (expression->depth == (int)ZG_ARRAY_COUNT(expression->stack)) return false;
    expression->stack[expression->depth++] = word;
    return true;
}

// Runs an operation that pushes a constant or a register. `*known` becomes false for any other operation.
static bool push_operand(struct expression *expression, uint8_t op, bool *known) {
    const uint8_t **at = &expression->at;
    uint64_t word;
    if (op >= 0x30 && op <= 0x4f) return push(expression, op - 0x30u); // lit0..31
    if (op >= 0x70 && op <= 0x8f)                                      // breg0..31
        return is_known(expression->registers, op - 0x70u, &word) && push(expression, word + (uint64_t)read_sleb(at));
    switch (op) {
    case 0x08: return push(expression, *(*at)++);
    case 0x09: return push(expression, (uint64_t)(int8_t) * (*at)++);
    case 0x0a: return push(expression, read_u16(at));
    case 0x0b: return push(expression, (uint64_t)(int16_t)read_u16(at));
    case 0x0c: return push(expression, read_u32(at));
    case 0x0d: return push(expression, (uint64_t)(int64_t)read_s32(at));
    case 0x0e:
    case 0x0f: return push(expression, read_u64(at));
    case 0x10: return push(expression, read_uleb(at));
    case 0x11: return push(expression, (uint64_t)read_sleb(at));
    default: *known = false; return true;
    }
}

// Runs an operation on the topmost word. `*known` becomes false for any other operation.
static bool apply_unary(struct expression *expression, uint8_t op, bool *known) {
    if (op != 0x06 && op != 0x12 && op != 0x13 && op != 0x23) {
        *known = false;
        return true;
    }
    if (!expression->depth) return false;
    uint64_t *top = &expression->stack[expression->depth - 1];
    switch (op) {
    case 0x06: return expression->read(expression->context, *top, top); // deref
    case 0x12: return push(expression, *top);                           // dup
    case 0x13: expression->depth--; return true;                        // drop
    default: *top += read_uleb(&expression->at); return true;           // plus_uconst
    }
}

// Runs an operation that replaces the two topmost words by one. False for any other operation.
static bool apply_binary(struct expression *expression, uint8_t op) {
    if (expression->depth < 2) return false;
    uint64_t right = expression->stack[--expression->depth], *left = &expression->stack[expression->depth - 1];
    switch (op) {
    case 0x1a: *left &= right; return true;
    case 0x1c: *left -= right; return true;
    case 0x1e: *left *= right; return true;
    case 0x21: *left |= right; return true;
    case 0x22: *left += right; return true;
    case 0x24: *left <<= right & 63; return true;
    case 0x25: *left >>= right & 63; return true;
    case 0x2a: *left = (int64_t)*left >= (int64_t)right; return true;
    default: return false;
    }
}

// Evaluates an expression, in the subset that compilers and libc use in frame information. The caller pushes the
// canonical frame address if the expression expects it.
static bool evaluate(struct expression *expression, uint64_t *result) {
    uint64_t bytes = read_uleb(&expression->at);
    const uint8_t *end = expression->at + bytes;
    while (expression->at < end) {
        uint8_t op = *expression->at++;
        bool known = true;
        if (op == 0x96) continue; // nop
        if (!push_operand(expression, op, &known)) return false;
        if (known) continue;
        known = true;
        if (!apply_unary(expression, op, &known)) return false;
        if (!known && !apply_binary(expression, op)) return false;
    }
    if (!expression->depth) return false;
    *result = expression->stack[expression->depth - 1];
    return true;
}

// Finds the canonical frame address. `empty`: evaluation state without an expression.
static bool find_cfa(const struct zg_cfi_row *row, const struct expression *empty, uint64_t *cfa) {
    const struct zg_registers *registers = empty->registers;
    if (row->cfa.how == zg_cfi_is_expression) {
        struct expression expression = *empty;
        expression.at = expression_of(row, &row->cfa);
        return evaluate(&expression, cfa);
    }
    if (!is_known(registers, row->cfa_register, cfa)) return false;
    *cfa += (uint64_t)row->cfa.value;
    if (row->cfa_register != ZG_ARCH_SP || zg_arch_is_sp_exact(registers->value[ZG_ARCH_SP])) return true;
    // The stack pointer is only a bound: compute the CFA from the frame pointer, which points to the frame record.
    const struct zg_cfi_rule *record = &row->registers[ZG_ARCH_FP];
    if (record->how != zg_cfi_at_offset || !is_known(registers, ZG_ARCH_FP, cfa)) return false;
    *cfa -= (uint64_t)record->value;
    return true;
}

// Not inlined, so that its frame takes no stack while the row is being found.
ZG_NOINLINE bool zg_cfi_step(const struct zg_cfi_row *row, struct zg_registers *registers, zg_cfi_reader read,
                             void *context) {
    const struct expression empty = {.registers = registers, .read = read, .context = context};
    uint64_t cfa;
    if (!find_cfa(row, &empty, &cfa)) return false;
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
        case zg_cfi_is_expression: {
            struct expression expression = empty;
            expression.at = expression_of(row, rule);
            push(&expression, cfa);
            known = evaluate(&expression, &value);
            if (known && rule->how == zg_cfi_at_expression) known = read(context, value, &value);
            break;
        }
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
