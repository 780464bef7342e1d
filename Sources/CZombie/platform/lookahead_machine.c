// Memory of the lookahead emulator: words that the emulated code wrote, the header of a live object, and the process's
// memory otherwise.
// Signal context; pure, no lock.

#include "platform/lookahead_machine.h"

// Assumed size of the stack on each side of the initial stack pointer. Memory below that pointer has no valid contents.
#define STACK_REACH ((uint64_t)1 << 16)

bool zg_lookahead_is_object(const struct zg_lookahead_machine *m, uint64_t address) {
    return address - m->found.object < m->found.bytes;
}
static bool is_header(const struct zg_lookahead_machine *m, uint64_t address, int bytes) {
    return address >= m->found.object && address - m->found.object + (uint64_t)bytes <= 16;
}
static bool is_dead_stack(const struct zg_lookahead_machine *m, uint64_t address) {
    return address < m->first_sp && m->first_sp - address <= STACK_REACH;
}
bool zg_lookahead_is_stack(const struct zg_lookahead_machine *m, uint64_t address) {
    return address - (m->first_sp - STACK_REACH) < 2 * STACK_REACH;
}

void zg_lookahead_add_use(struct zg_lookahead_machine *m, struct zg_lookahead_use use) {
    use.is_doubtful = m->is_doubtful;
    if (m->found.use_count < ZG_LOOKAHEAD_USES) m->found.uses[m->found.use_count++] = use;
}
void zg_lookahead_add_property(struct zg_lookahead_machine *m, uint64_t address, bool is_write) {
    uint64_t byte = address - m->found.object;
    if (byte >= 16) zg_lookahead_add_use(m, (struct zg_lookahead_use){.byte = byte, .is_write = is_write});
}

struct zg_known_bits zg_lookahead_word(struct zg_lookahead_machine *m, uint64_t place) {
    for (int i = 0; i < m->written_count; i++)
        if (m->written[i].place == place) return m->written[i].value;
    if (place == m->found.object) return zg_known_bits_word(m->found.first_word);
    if (place == m->found.object + 8) return zg_known_bits_word(m->found.counts);
    uint64_t bits;
    if (is_dead_stack(m, place) || m->found.read(&bits, place, sizeof bits) != sizeof bits) return zg_known_bits_none();
    for (int i = 0; i < m->doubt_count && bits == m->found.object; i++)
        if (place - m->doubts[i] < 64) m->is_doubtful = true;
    return zg_known_bits_word(bits);
}

bool zg_lookahead_load(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits *value) {
    struct zg_lookahead_machine *m = (struct zg_lookahead_machine *)cpu;
    *value = zg_known_bits_none();
    if (!zg_known_bits_is_whole(address)) return true;
    uint64_t at = address.bits, place = at & ~UINT64_C(7);
    if ((zg_lookahead_is_object(m, at) || zg_lookahead_is_object(m, at + (uint64_t)bytes - 1)) &&
        !is_header(m, at, bytes)) {
        if (zg_lookahead_is_object(m, at)) zg_lookahead_add_property(m, at, false);
        return false;
    }
    int shift = (int)(at & 7) * 8;
    struct zg_known_bits low = zg_lookahead_word(m, place);
    value->bits = low.bits >> shift, value->known = low.known >> shift;
    if (shift && shift + 8 * bytes > 64) {
        struct zg_known_bits high = zg_lookahead_word(m, place + 8);
        value->bits |= high.bits << (64 - shift), value->known |= high.known << (64 - shift);
    }
    value->bits &= zg_known_bits_mask(bytes), value->known &= zg_known_bits_mask(bytes);
    value->known |= ~zg_known_bits_mask(bytes);
    return true;
}

static bool store_word(struct zg_lookahead_machine *m, uint64_t place, struct zg_known_bits value, uint64_t mask) {
    int i = 0;
    while (i < m->written_count && m->written[i].place != place) i++;
    if (i == ZG_LOOKAHEAD_WRITTEN) return false;
    struct zg_known_bits old = mask == ZG_ALL_BITS ? zg_known_bits_none() : zg_lookahead_word(m, place);
    if (i == m->written_count) m->written[m->written_count++].place = place;
    m->written[i].value.bits = (old.bits & ~mask) | (value.bits & mask);
    m->written[i].value.known = (old.known & ~mask) | (value.known & mask);
    return true;
}

bool zg_lookahead_store(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits value) {
    struct zg_lookahead_machine *m = (struct zg_lookahead_machine *)cpu;
    if (!zg_known_bits_is_whole(address)) return true;
    uint64_t at = address.bits, place = at & ~UINT64_C(7), mask = zg_known_bits_mask(bytes);
    bool counts =
        at == m->found.object + 8 && bytes == 8 && zg_known_bits_is_whole(value) && value.bits >= m->found.counts;
    if ((zg_lookahead_is_object(m, at) || zg_lookahead_is_object(m, at + (uint64_t)bytes - 1)) && !counts) {
        if (zg_lookahead_is_object(m, at)) zg_lookahead_add_property(m, at, true);
        return false;
    }
    int shift = (int)(at & 7) * 8;
    struct zg_known_bits low = {value.bits << shift, value.known << shift};
    if (!store_word(m, place, low, mask << shift)) return false;
    if (!shift || shift + 8 * bytes <= 64) return true;
    struct zg_known_bits high = {value.bits >> (64 - shift), value.known >> (64 - shift)};
    return store_word(m, place + 8, high, mask >> (64 - shift));
}
