// Runs the lookahead emulator on the caller of a retain that faulted, or on the code at a load of an object's header.
// Signal context; no lock.

#include "faults/lookahead.h"

#include "blocks/lookup.h"
#include "blocks/tags.h"
#include "images/module.h"
#include "images/space.h"
#include "platform/os.h"
#include "stacks/unwind.h"
#include "zombies/classes.h"
#include "zombies/swift_names.h"

// Counts of a live object: several strong references, and the unowned reference that all of them share
// (SwiftShims/RefCount.h).
#define STRONG_ONE (UINT64_C(1) << 33)
#define LIVE_BITS (3 + 8 * STRONG_ONE)

// Reads memory, and removes the memory tag from a word that points to a block, because the emulator compares words with
// the object's address.
static uint64_t read_plainly(void *to, uint64_t from, uint64_t bytes) {
    uint64_t got = zg_os_read_memory(to, from, bytes);
    if (zg_tags_are_on() && bytes == sizeof(uint64_t) && got == bytes) zg_lookup_strip(to, 1);
    return got;
}

// Emulates the code at `start`. `runtime`: image of the Swift runtime, NULL if it is not a separate image.
static void find_uses(struct zg_finding *finding, const struct zg_block_view *block, struct zg_registers *start,
                      bool is_at_load, const struct zg_module *runtime) {
    uint64_t kind;
    struct zg_class class = zg_class_get(block->death.class_number);
    if (class.language != zg_language_swift) return;
    // Closures and boxes have no members; only classes have metadata of kind 0.
    uint64_t bytes = zg_swift_instance_size(&zg_space_own, class.pointer);
    if (bytes < 16 || zg_os_read_memory(&kind, class.pointer, sizeof kind) != sizeof kind || kind) return;
    if (zg_tags_are_on()) zg_lookup_strip(start->value, ZG_ARCH_REGISTER_COUNT);
    struct zg_lookahead lookahead = {.object = block->start,
                                     .bytes = bytes,
                                     .first_word = class.pointer,
                                     .counts = LIVE_BITS,
                                     .count_step = STRONG_ONE,
                                     .is_at_load = is_at_load,
                                     .thread = (uint64_t)__builtin_thread_pointer(),
                                     .runtime = runtime ? runtime->start : 0,
                                     .runtime_bytes = runtime ? runtime->end - runtime->start : 0,
                                     .read = read_plainly,
                                     .called_through = zg_module_plt_symbol};
    zg_lookahead_run(start, &lookahead);
    finding->next_count = lookahead.use_count;
    for (int i = 0; i < lookahead.use_count; i++) finding->next[i] = lookahead.uses[i];
}

void zg_lookahead_find_uses(struct zg_finding *finding, const struct zg_zombie_hit *hit,
                            const struct zg_registers *registers) {
    uint64_t frame;
    if (hit->part != zg_trap_side || !hit->has_block || hit->ambiguous) return;
    struct zg_registers caller = *registers;
    if (zg_unwind_full(&caller, true, &frame, 1) != 1 || caller.pc == registers->pc) return;
    // The image that contains the retain is the Swift runtime, unless it also contains the caller (static linking).
    struct zg_module runtime;
    bool is_apart =
        zg_module_find_unwind(registers->pc, &runtime) && caller.pc - runtime.start >= runtime.end - runtime.start;
    find_uses(finding, &hit->block, &caller, false, is_apart ? &runtime : NULL);
}

void zg_lookahead_find_uses_of_load(struct zg_finding *finding, const struct zg_block_view *block,
                                    const struct zg_registers *registers) {
    struct zg_registers start = *registers;
    find_uses(finding, block, &start, true, NULL);
}
