// The refcount emulator. After a fault, executes the code from the faulting instruction on, with a copy of the
// registers. Ends when the caller's `write` returns false (at the first change of a reference count), when the faulting
// function returns, or when the code cannot be emulated further.
// Signal context; pure except for the caller's memory; no lock.

#include "platform/refcount_emulator.h"

#include "platform/step.h"

struct machine {
    struct zg_cpu cpu; // first member, because `load` and `store` cast to this struct
    const struct zg_refcount_memory *memory;
    bool is_stopped;
};

static bool load(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits *value) {
    const struct zg_refcount_memory *memory = ((struct machine *)cpu)->memory;
    uint64_t words[2] = {0, 0}, first = address.bits & ~UINT64_C(7), shift = (address.bits & 7) * 8;
    bool crosses = shift + 8 * (uint64_t)bytes > 64;
    if (!zg_known_bits_is_whole(address) || !memory->read(memory->context, first, &words[0])) return false;
    if (crosses && !memory->read(memory->context, first + 8, &words[1])) return false;
    uint64_t bits = words[0] >> shift;
    if (crosses) bits |= words[1] << (64 - shift);
    *value = zg_known_bits_word(bits & zg_known_bits_mask(bytes));
    return true;
}

static bool store_part(struct machine *m, uint64_t place, uint64_t value, uint64_t mask) {
    uint64_t word;
    if (!m->memory->read(m->memory->context, place, &word)) return false;
    if (m->memory->write(m->memory->context, place, (word & ~mask) | (value & mask))) return true;
    m->is_stopped = true;
    return false;
}

static bool store(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits value) {
    struct machine *m = (struct machine *)cpu;
    uint64_t first = address.bits & ~UINT64_C(7), shift = (address.bits & 7) * 8, mask = zg_known_bits_mask(bytes);
    if (!zg_known_bits_is_whole(address) || ~value.known & mask) return false;
    if (!store_part(m, first, value.bits << shift, mask << shift)) return false;
    if (shift + 8 * (uint64_t)bytes <= 64) return true;
    return store_part(m, first + 8, value.bits >> (64 - shift), mask >> (64 - shift));
}

// Reads enough bytes at the pc for the longest instruction. Returns the number of bytes that could be read.
static int fetch(const struct machine *m, uint8_t code[ZG_STEP_CODE]) {
    int count = 0;
    while (count < ZG_ARCH_INSTRUCTION_BYTES) {
        uint64_t word, at = m->cpu.pc + (uint64_t)count, skipped = at & 7;
        if (!m->memory->read(m->memory->context, at - skipped, &word)) break;
        for (word >>= 8 * skipped; skipped < 8 && count < ZG_STEP_CODE; skipped++, word >>= 8)
            code[count++] = (uint8_t)word;
    }
    return count;
}

enum zg_refcount_end zg_refcount_emulate(const struct zg_registers *registers, const struct zg_refcount_memory *memory,
                                         int most) {
    struct machine m = {.memory = memory};
    m.cpu.pc = registers->pc;
    m.cpu.thread = zg_known_bits_word((uint64_t)__builtin_thread_pointer());
    m.cpu.load = load, m.cpu.store = store;
    for (int i = 0; i < ZG_ARCH_ENCODED_REGISTERS; i++)
        m.cpu.registers[i] = zg_known_bits_word(registers->value[zg_arch_dwarf_number(i)]);
    for (int i = 0; ZG_ARCH_ASSUMES_ZEROS && i < ZG_CPU_REGISTERS; i++)
        m.cpu.vectors[i][0] = m.cpu.vectors[i][1] = zg_known_bits_word(0);
    if (ZG_ARCH_ASSUMES_ZEROS) m.cpu.known_flags = UINT8_MAX;
    int depth = 0; // calls that have not returned
    for (int i = 0; i < most; i++) {
        uint8_t code[ZG_STEP_CODE];
        struct zg_step_target target;
        switch (zg_arch_step(&m.cpu, code, fetch(&m, code), &target)) {
        case zg_step_next: continue;
        case zg_step_lost: return m.is_stopped ? zg_refcount_stopped : zg_refcount_lost;
        case zg_step_trap:
        case zg_step_forks: return zg_refcount_lost;
        case zg_step_calls:
            if (!zg_arch_step_link(&m.cpu, m.cpu.pc)) return m.is_stopped ? zg_refcount_stopped : zg_refcount_lost;
            depth++;
            break;
        case zg_step_jumps: break;
        case zg_step_returns:
            if (--depth < 0) return zg_refcount_returned;
            break;
        }
        if (!zg_known_bits_is_whole(target.code)) return zg_refcount_lost;
        m.cpu.pc = target.code.bits;
    }
    return zg_refcount_lost;
}
