// One AArch64 instruction, done to registers and memory of which some is known.

#ifndef ZG_ARCH_AARCH64_STEP_H
#define ZG_ARCH_AARCH64_STEP_H

#include "platform/base.h"
#include "platform/known.h"

enum { ZG_A64_SP = 31, ZG_A64_LINK = 30 };

struct zg_a64_machine {
    struct zg_known *x;      // x0 to x30, sp
    struct zg_known (*v)[2]; // v0 to v31
    uint8_t *flags, *known_flags;
    uint64_t pc;
    struct zg_known thread; // what tpidr_el0 holds
    uint32_t used, set;     // bit n: register n was
    // At most 8 bytes. False: it ends here.
    bool (*load)(void *context, struct zg_known address, int bytes, struct zg_known *value);
    bool (*store)(void *context, struct zg_known address, int bytes, struct zg_known value);
    void *context;
};

enum zg_a64_step {
    zg_a64_lost, // not understood, or ended by memory
    zg_a64_next, // the pc has moved
    zg_a64_trap,
    zg_a64_forks, // to `*target` or to the next: that is not known
    // To `*target`; the pc stands still.
    zg_a64_calls, // and x30 says where from
    zg_a64_jumps,
    zg_a64_returns,
};

// Does what `word`, at the pc, does. Nobody else is at work: exclusive stores succeed.
enum zg_a64_step zg_a64_do(struct zg_a64_machine *machine, uint32_t word, struct zg_known *target);

#endif
