// Walking a stack without frame pointers: call frame rules, looked up once per pc and kept in a cache.
// zg_unwind_fast: hot path, no lock. zg_unwind_full: signal context and cold.

#ifndef ZG_UNWIND_H
#define ZG_UNWIND_H

#include "platform/arch.h"
#include "stacks/unwind_rule.h"

#define ZG_STACK_MAX_DEPTH 128

// The part of memory that is known to be the running thread's stack. Outside of it (coroutines, alternate stacks) every
// page is probed before it is read for the first time.
struct zg_stack_bounds {
    uint64_t low, high;
};

// Where a walk begins: the frame that called into the runtime.
struct zg_caller {
    uint64_t pc, sp, fp;
};

enum { ZG_WALK_WORDS = 96 }; // two for each frame of the default depth

// What a walk gives, and the words of the stack that it depended on.
struct zg_walk {
    int count;
    uint64_t frames[ZG_STACK_MAX_DEPTH]; // return addresses, innermost first, beginning with caller.pc
    bool repeatable;                     // the words below decide the walk: with the same ones it goes the same way
    bool uses_fp;                        // so does caller.fp
    uint32_t word_count;
    uint64_t words[ZG_WALK_WORDS]; // bits 0-47 the word's low bits, 48-63 its distance from caller.sp / 8
};

void zg_unwind_fast(struct zg_caller caller, const struct zg_stack_bounds *bounds, int depth, struct zg_walk *walk);

// One step outwards on the thread's own stack, from a stack pointer that is a multiple of 8, where zg_rules_look has no simple rule.
enum zg_step_result {
    zg_step_done,
    zg_step_outermost, // there is no frame further out, or none that is known
    zg_step_lost,      // the full rules are needed, or the words lie outside the stack
};
// `used_fp`: the step counted from fp. `end_place`: of the outermost frame, the word that says so; 0: the rules do.
enum zg_step_result zg_unwind_step(struct zg_rule_frame *frame, uint64_t high, bool *used_fp, uint64_t *end_place);

// The frames alone, as zg_unwind_fast gives them, of a caller on the thread's own stack. 0 where a step needs more than the
// compact rules.
int zg_unwind_innermost(struct zg_caller caller, const struct zg_stack_bounds *bounds, int depth, uint64_t *frames);

// From a complete register set, all rules evaluated, every word read safely; continues through signal frames.
// `exact` says that registers->pc is an instruction and not a return address. Frames are stored so that pc - 1 lies in
// the frame's instruction.
int zg_unwind_full(struct zg_registers *registers, bool exact, uint64_t *frames, int depth);

// What a walk outwards from a caller says of a signal handler that it is in.
struct zg_interruption {
    uint64_t context; // that the handler will return to; 0 where there is none, or the stack cannot be followed
    uint64_t handler; // an address in the function that the kernel has called
    uint64_t end;     // the stack pointer of the outermost frame
    bool is_complete; // that frame says itself that there is none further out
    enum {
        zg_place_elsewhere,
        zg_place_within,
        zg_place_beyond
    } place; // of the stack pointer `wanted`: in a frame of
             // the handler, further out, or on no frame
};
// Looks for the handler that has interrupted a stack pointer within [low, high); of several for the outermost. `wanted`: see above.
void zg_unwind_find_signal(struct zg_caller caller, uint64_t low, uint64_t high, uint64_t wanted,
                           struct zg_interruption *interruption);

// Whether a walk outwards comes to the signal handler that will return to `context`, from a complete register set or one of a caller, whose
// stack and frame pointers are known. Lost: it ended before a frame that says that it is the outermost.
enum zg_unwind_met { zg_unwind_met, zg_unwind_not_met, zg_unwind_lost };
enum zg_unwind_met zg_unwind_meets(struct zg_registers *registers, bool exact, uint64_t context);

// There is unwind information for the code at this address.
bool zg_unwind_has_rules(uint64_t pc);
// The address lies on a page that a walk has read, outside of the stack that was the running thread's own.
bool zg_unwind_has_read(uint64_t address);
// Set once faults of zg_arch_try_read are recovered: what was readable is then read again without asking.
extern bool zg_unwind_recovers;

// Forgets all cached rules; after an image was unloaded. Any thread.
void zg_unwind_forget(void);
// Raised by zg_unwind_forget, by ZG_UNWIND_EPOCH: what was derived from older rules is void.
extern uint64_t zg_unwind_epoch;
#define ZG_UNWIND_EPOCH UINT64_C(0xa0761d6478bd6430) // 16 times an odd number: it does not come back

#endif
