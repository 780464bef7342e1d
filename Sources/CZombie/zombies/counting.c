// After a fault on a freed object, emulates the code from there on with the count of a live object, and compares the
// count afterwards.
// Facts: SwiftShims/RefCount.h of Swift 5 and 6, 64 bits.

#include "zombies/counting.h"

#include "blocks/words.h"
#include "platform/os.h"
#include "platform/refcount_emulator.h"

// Layout of a side table: object, reserved, strong and unowned count, weak count.
enum { OBJECT = 0, COUNTS = 16, WEAK = 24, SIDE_BYTES = 32 };
// Limits of the number of instructions to emulate. STEPS_MOST: enough for the longest function that changes a count.
// STEPS_TO_USE: from the load of a class pointer to its use, which may be in a function called with the pointer.
enum { STEPS_MOST = 400, STEPS_TO_USE = 4000, WRITTEN_MOST = 64, LINE_WORDS = 8 };

// Address that replaces the side table for objects without one (C++): non-canonical, so no access matches.
#define NOWHERE (UINT64_C(1) << 63)

// Count so large that it neither reaches zero nor overflows when the function subtracts or adds.
#define MANY UINT64_C(0x100000)
#define STRONG_SHIFT 33
#define DEINITING (UINT64_C(1) << 32)
#define LIVE_COUNTS (MANY << STRONG_SHIFT | MANY << 1 | 1)
#define LIVE_WEAK MANY

struct world {
    uint64_t side, object;
    // `header`: the words that the emulated code loads from the object's header: class pointer and reference count
    // (Swift), pointers into the trap regions. `header_bytes` is 0 if the emulated code must not load them.
    uint64_t header[2], header_bytes;
    uint64_t used_class;   // address of the first access through the class pointer; 0 if there was none
    bool used_side;        // the side table was accessed
    uint64_t counts, weak; // values last written by the emulated code
    uint64_t places[WRITTEN_MOST], words[WRITTEN_MOST]; // emulated writes to other memory
    int written;
    uint64_t line, line_words[LINE_WORDS]; // cache of the memory read last
};

static bool read_memory(struct world *world, uint64_t address, uint64_t *word) {
    uint64_t line = address & ~UINT64_C(63);
    if (line != world->line) {
        world->line = line;
        if (zg_os_read_memory(world->line_words, line, sizeof world->line_words) != sizeof world->line_words) {
            world->line = 0;
            return zg_os_read_memory(word, address, sizeof *word) == sizeof *word;
        }
    }
    *word = world->line_words[(address - line) / sizeof *word];
    return true;
}

// Whether the address lies in the trap window of the object's class pointer.
static bool is_class(const struct world *world, uint64_t address) {
    return world->header_bytes && address - (world->header[0] - ZG_TRAP_ISA_OFFSET) < UINT64_C(1) << ZG_TRAP_ISA_SHIFT;
}

static bool read_word(void *context, uint64_t address, uint64_t *word) {
    struct world *world = context;
    if (address - world->object < world->header_bytes) {
        *word = world->header[(address - world->object) / sizeof *word];
        return true;
    }
    if (is_class(world, address)) {
        world->used_class = address;
        return false;
    }
    if (address - world->side < SIDE_BYTES) {
        world->used_side = true;
        uint64_t at = address - world->side;
        *word = at == OBJECT ? world->object : at == COUNTS ? world->counts : at == WEAK ? world->weak : 0;
        return true;
    }
    for (int i = world->written; i-- > 0;)
        if (world->places[i] == address) {
            *word = world->words[i];
            return true;
        }
    return read_memory(world, address, word);
}

static bool write_word(void *context, uint64_t address, uint64_t word) {
    struct world *world = context;
    if (address - world->side < SIDE_BYTES) {
        if (address == world->side + COUNTS) world->counts = word;
        if (address == world->side + WEAK) world->weak = word;
        return world->counts == LIVE_COUNTS && (uint32_t)world->weak == LIVE_WEAK;
    }
    for (int i = 0; i < world->written; i++)
        if (world->places[i] == address) {
            world->words[i] = word;
            return true;
        }
    if (world->written == WRITTEN_MOST) return false;
    world->places[world->written] = address;
    world->words[world->written++] = word;
    return true;
}

// Names the change that the emulated code has made to the counts.
static struct zg_counting counting_of(const struct world *world, enum zg_refcount_end end) {
    static const char unowned[] = "unowned reference", weak[] = "weak reference";
    if (end == zg_refcount_returned) return (struct zg_counting){ZG_ACCESS(read), NULL};
    if (end == zg_refcount_lost) return (struct zg_counting){NULL, NULL};
    int64_t strong = (int64_t)((world->counts >> STRONG_SHIFT & 0x3fffffff) - MANY);
    int64_t unowned_more = (int64_t)((world->counts >> 1 & 0x7fffffff) - MANY);
    int64_t weak_more = (int64_t)((uint32_t)world->weak - LIVE_WEAK);
    if (world->counts & DEINITING || strong < 0) return (struct zg_counting){ZG_ACCESS(release), NULL};
    if (strong > 0) return (struct zg_counting){ZG_ACCESS(retain), NULL};
    if (unowned_more) return (struct zg_counting){unowned_more > 0 ? ZG_ACCESS(retain) : ZG_ACCESS(release), unowned};
    if (weak_more) return (struct zg_counting){weak_more > 0 ? ZG_ACCESS(retain) : ZG_ACCESS(release), weak};
    return (struct zg_counting){NULL, NULL};
}

struct zg_counting zg_refcount_operation_find(const struct zg_registers *registers, uint64_t side, uint64_t object) {
    struct world world = {.side = side, .object = object, .counts = LIVE_COUNTS, .weak = LIVE_WEAK};
    struct zg_refcount_memory memory = {read_word, write_word, &world};
    return counting_of(&world, zg_refcount_emulate(registers, &memory, STEPS_MOST));
}

struct zg_header_use zg_header_use_find(const struct zg_registers *registers, uint64_t object,
                                        const struct zg_zombie_pattern *pattern) {
    const uint64_t *head = pattern->head;
    bool is_swift = head[1] >> 62 == 3;
    struct world world = {.side = is_swift ? ZG_TRAP_SIDE_PAGE(head[1]) : NOWHERE,
                          .object = object,
                          .header = {head[0], head[1]},
                          .header_bytes = is_swift ? 2 * sizeof *head : sizeof *head,
                          .counts = LIVE_COUNTS,
                          .weak = LIVE_WEAK};
    struct zg_refcount_memory memory = {read_word, write_word, &world};
    enum zg_refcount_end end = zg_refcount_emulate(registers, &memory, STEPS_TO_USE);
    if (world.used_side) return (struct zg_header_use){zg_trap_side, COUNTS, counting_of(&world, end)};
    if (!world.used_class) return (struct zg_header_use){.part = zg_trap_none};
    return (struct zg_header_use){.part = zg_trap_isa, .offset = (int64_t)(world.used_class - head[0])};
}
