// AArch64 instructions, followed on a copy of the registers: what a program is about to do, without its being done. What is not
// understood ends it, and so does what would depend on it.
// Signal context; pure but for the memory that it is given, no lock.

#if defined(__aarch64__)

#include "platform/arch.h"
#include "platform/arch_aarch64_step.h"

struct follower {
    const struct zg_arch_memory *memory;
    bool is_stopped;
};

static bool load(void *context, struct zg_known address, int bytes, struct zg_known *value) {
    const struct zg_arch_memory *memory = ((struct follower *)context)->memory;
    uint64_t words[2] = {0, 0}, first = address.bits & ~UINT64_C(7), shift = (address.bits & 7) * 8;
    bool crosses = shift + 8 * (uint64_t)bytes > 64;
    if (!zg_known_is_whole(address) || !memory->read(memory->context, first, &words[0])) return false;
    if (crosses && !memory->read(memory->context, first + 8, &words[1])) return false;
    uint64_t bits = words[0] >> shift;
    if (crosses) bits |= words[1] << (64 - shift);
    *value = zg_known_word(bits & zg_known_mask(bytes));
    return true;
}

static bool store_part(struct follower *follower, uint64_t place, uint64_t value, uint64_t mask) {
    const struct zg_arch_memory *memory = follower->memory;
    uint64_t word;
    if (!memory->read(memory->context, place, &word)) return false;
    if (memory->write(memory->context, place, (word & ~mask) | (value & mask))) return true;
    follower->is_stopped = true;
    return false;
}

static bool store(void *context, struct zg_known address, int bytes, struct zg_known value) {
    uint64_t first = address.bits & ~UINT64_C(7), shift = (address.bits & 7) * 8, mask = zg_known_mask(bytes);
    if (!zg_known_is_whole(address) || ~value.known & mask) return false;
    if (!store_part(context, first, value.bits << shift, mask << shift)) return false;
    if (shift + 8 * (uint64_t)bytes <= 64) return true;
    return store_part(context, first + 8, value.bits >> (64 - shift), mask >> (64 - shift));
}

enum zg_followed zg_arch_follow(const struct zg_registers *registers, const struct zg_arch_memory *memory, int most) {
    struct follower follower = {.memory = memory};
    struct zg_known x[32], v[32][2];
    uint8_t flags = 0, known_flags = 0;
    struct zg_a64_machine machine = {.x = x,
                                     .v = v,
                                     .flags = &flags,
                                     .known_flags = &known_flags,
                                     .pc = registers->pc,
                                     .thread = zg_known_word((uint64_t)__builtin_thread_pointer()),
                                     .load = load,
                                     .store = store,
                                     .context = &follower};
    for (int i = 0; i < 32; i++) {
        x[i] = zg_known_word(registers->value[i]);
        v[i][0] = v[i][1] = zg_known_none();
    }
    int depth = 0; // calls that have not returned
    for (int i = 0; i < most; i++) {
        struct zg_known word, target;
        if (machine.pc & 3 || !load(&follower, zg_known_word(machine.pc), 4, &word)) return zg_followed_lost;
        switch (zg_a64_do(&machine, (uint32_t)word.bits, &target)) {
        case zg_a64_next: continue;
        case zg_a64_lost: return follower.is_stopped ? zg_followed_stopped : zg_followed_lost;
        case zg_a64_trap:
        case zg_a64_forks: return zg_followed_lost;
        case zg_a64_calls: depth++; break;
        case zg_a64_jumps: break;
        case zg_a64_returns:
            if (--depth < 0) return zg_followed_return;
            break;
        }
        if (!zg_known_is_whole(target)) return zg_followed_lost;
        machine.pc = target.bits;
    }
    return zg_followed_lost;
}

#endif
