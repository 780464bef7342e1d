// The AArch64 part of the lookahead emulator: the roles of registers, and PLT stubs. Swift passes self in x20, errors
// in x21, and the context of async functions in x22 (docs/ABI/CallingConventionSummary.rst of Swift). PLT stubs are
// recognized as linkers write them ("ELF for the Arm 64-bit Architecture", aaelf64). Signal context; pure, no lock.

#if defined(__aarch64__)

#include "platform/lookahead_machine.h"
#include "platform/arch_aarch64_decode.h"

enum { SELF = 20, TASK = 22, FP = 29, LINK = 30, SP = 31, FIRST_PRESERVED = 19, STUB_WORDS = 5 };
enum { BTI_C = 0xd503245f, AUTIA1716 = 0xd503219f, BR_X17 = 0xd61f0220 };

const struct zg_lookahead_registers zg_arch_lookahead_registers = {
    .arguments = {0, 1, 2, 3, 4, 5, 6, 7, SELF},
    .argument_count = 9,
    .self = SELF,
    .stack = SP,
    .result = 0,
    .task = TASK,
    .changed = ((UINT32_C(1) << FIRST_PRESERVED) - 1) | UINT32_C(1) << LINK,
};

// Returns true if the instruction only saves x20 on the stack, as a function does before it uses x20 for something
// else. Unoptimized code also stores its own self there, but only after it has set up its frame; such a store is a use.
static bool saves_self(const struct zg_lookahead_machine *m, uint32_t word) {
    struct zg_a64 it = zg_a64_decode(word);
    bool is_of_stack = it.kind == zg_a64_store && !it.is_vector && (it.base == SP || it.base == FP) && it.index != SELF;
    if (!is_of_stack || (it.first != SELF && it.second != SELF)) return false;
    bool has_frame = zg_known_bits_is_whole(m->cpu.registers[FP]) && m->cpu.registers[FP].bits < m->self_sp &&
                     m->cpu.registers[FP].bits >= m->cpu.registers[SP].bits;
    return it.update || m->calls != m->outer_calls + 1 || !has_frame;
}

// Returns the GOT slot from which a PLT stub loads its target; 0 if the code is no PLT stub. The stub is adrp x16,
// page; ldr x17, [x16, #offset]; add x16, x16, #offset; br x17.
static uint64_t place_of_stub(const uint32_t *words, uint64_t at) {
    uint32_t page = words[0], from = words[1];
    bool is_stub = (page & 0x9f00001f) == 0x90000010 && (from & 0xffc003ff) == 0xf9400211 &&
                   (words[2] & 0xffc003ff) == 0x91000210 &&
                   (words[3] == BR_X17 || (words[3] == AUTIA1716 && words[4] == BR_X17));
    if (!is_stub) return 0;
    int64_t pages = zg_a64_signed(page, 5, 19) * 4 + (int64_t)zg_a64_bits(page, 29, 2);
    return (at & ~UINT64_C(4095)) + (uint64_t)(pages * 4096) + zg_a64_bits(from, 10, 12) * 8;
}

uint64_t zg_arch_stub_place(const struct zg_lookahead *lookahead, uint64_t start) {
    uint32_t words[STUB_WORDS + 1] = {0};
    uint64_t count = lookahead->read(words, start, sizeof words) / sizeof *words;
    bool has_pad = count > 0 && words[0] == BTI_C;
    if (count < 4 + (uint64_t)has_pad) return 0;
    return place_of_stub(words + has_pad, start + (has_pad ? sizeof *words : 0));
}

// Returns the GOT slot of the PLT stub that ends with the jump at `pc`; 0 if there is no stub.
static uint64_t place_before(const struct zg_lookahead *lookahead, uint64_t pc) {
    uint32_t words[STUB_WORDS] = {0};
    for (uint64_t in_front = 3; in_front <= 4; in_front++) {
        uint64_t start = pc - in_front * sizeof *words, bytes = (in_front + 1) * sizeof *words;
        uint64_t place = lookahead->read(words, start, bytes) == bytes ? place_of_stub(words, start) : 0;
        if (place) return place;
    }
    return 0;
}

enum zg_step zg_arch_lookahead_step(struct zg_lookahead_machine *m, const uint8_t *code, int count,
                                    struct zg_step_target *target) {
    uint32_t word = 0;
    if (count >= (int)sizeof word) __builtin_memcpy(&word, code, sizeof word);
    bool is_saved = saves_self(m, word);
    enum zg_step step = zg_arch_step(&m->cpu, code, count, target);
    if (is_saved) m->cpu.used &= ~(UINT32_C(1) << SELF);
    if (step == zg_step_jumps && word == BR_X17) target->place = place_before(&m->found, m->cpu.pc);
    return step;
}

void zg_arch_lookahead_start(struct zg_lookahead_machine *m, const struct zg_registers *registers) {
    for (int i = FIRST_PRESERVED; i <= SP; i++)
        if (i != LINK && registers->known >> i & 1) m->cpu.registers[i] = zg_known_bits_word(registers->value[i]);
}

#endif
