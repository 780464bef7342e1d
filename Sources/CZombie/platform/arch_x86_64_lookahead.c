// The x86-64 part of the lookahead emulator: the roles of registers, and PLT stubs. Swift passes self in r13 and errors
// in r12 (docs/ABI/RegisterUsage.md of Swift). Signal context; pure, no lock.

#if defined(__x86_64__)

#include "platform/lookahead_machine.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

// Only calls zg_arch_step, which already ignores a push that saves a register: such a push is not a use of the
// register.
enum zg_step zg_arch_lookahead_step(struct zg_lookahead_machine *m, const uint8_t *code, int count,
                                    struct zg_step_target *target) {
    return zg_arch_step(&m->cpu, code, count, target);
}

uint64_t zg_arch_stub_place(const struct zg_lookahead *lookahead, uint64_t start) {
    uint8_t code[11];
    uint64_t skipped = 0;
    int32_t distance;
    if (lookahead->read(code, start, sizeof code) != sizeof code) return 0;
    if (code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa) skipped = 4; // endbr64
    if (code[skipped] == 0xf2) skipped++;
    if (skipped + 6 > sizeof code || code[skipped] != 0xff || code[skipped + 1] != 0x25) return 0;
    __builtin_memcpy(&distance, code + skipped + 2, sizeof distance);
    return start + skipped + 6 + (uint64_t)(int64_t)distance;
}

#define BIT(number) (UINT32_C(1) << (number))

const struct zg_lookahead_registers zg_arch_lookahead_registers = {
    .arguments = {RDI, RSI, RDX, RCX, R8, R9, R13},
    .argument_count = 7,
    .self = R13,
    .stack = RSP,
    .result = RAX,
    .task = R14,
    .changed = BIT(RAX) | BIT(RCX) | BIT(RDX) | BIT(RSI) | BIT(RDI) | BIT(R8) | BIT(R9) | BIT(R10) | BIT(R11),
};

void zg_arch_lookahead_start(struct zg_lookahead_machine *m, const struct zg_registers *registers) {
    static const int preserved[] = {RBX, RSP, RBP, R12, R13, R14, R15};
    for (size_t i = 0; i < ZG_ARRAY_COUNT(preserved); i++) {
        int number = zg_arch_dwarf_number(preserved[i]);
        if (registers->known >> number & 1)
            m->cpu.registers[preserved[i]] = zg_known_bits_word(registers->value[number]);
    }
}

#endif
