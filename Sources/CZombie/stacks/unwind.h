// Unwinds stacks without frame pointers, by call frame rules that are looked up once per pc and cached. zg_unwind_fast:
// hot path, no lock. zg_unwind_full: signal context and cold.

#ifndef ZG_UNWIND_H
#define ZG_UNWIND_H

#include "platform/arch.h"
#include "stacks/unwind_rule.h"

#define ZG_STACK_MAX_DEPTH 128

// Memory that is known to be the running thread's stack. Elsewhere (coroutines, alternate stacks) every page is probed
// before it is first read.
struct zg_stack_bounds {
    uint64_t low, high;
};

// Where a walk begins: the frame that called into the runtime.
struct zg_caller {
    uint64_t pc, sp, fp;
};

enum { ZG_WALK_WORDS = 96 }; // at least two for each frame of the default depth

// Result of a walk, and the stack words that it depended on.
struct zg_walk {
    int count;
    uint64_t frames[ZG_STACK_MAX_DEPTH]; // return addresses, innermost first, beginning with caller.pc
    bool repeatable; // the words below determine the walk: if they are unchanged, it takes the same path
    bool uses_fp;    // caller.fp also determines the walk
    uint32_t word_count;
    // Bits 0-47: low bits of the word; bits 48-63: its distance from caller.sp, divided by 8
    uint64_t words[ZG_WALK_WORDS];
};

void zg_unwind_fast(struct zg_caller caller, const struct zg_stack_bounds *bounds, int depth, struct zg_walk *walk);

// Result of zg_unwind_step.
enum zg_step_result {
    zg_step_done,
    zg_step_outermost, // there is no caller, or none is known
    zg_step_lost,      // the full rules are needed, or the words lie outside the stack
};
// Steps to the caller's frame on the thread's own stack, if zg_rules_lookup has no simple rule for the pc. sp is a
// multiple of 8. `used_fp`: the CFA was computed from fp. `end_place`: for the outermost frame, address of the word
// that shows that it is outermost; 0 if its unwind rules show that.
enum zg_step_result zg_unwind_step(struct zg_rule_frame *frame, uint64_t high, bool *used_fp, uint64_t *end_place);

// Stores the frames of a caller on the thread's own stack, as zg_unwind_fast does, but without the words. Returns their
// number; 0 if a step needs more than the compact rules, or reads outside of the stack.
int zg_unwind_innermost(struct zg_caller caller, const struct zg_stack_bounds *bounds, int depth, uint64_t *frames);

// Unwinds from a complete register set: evaluates all rules, reads every word safely, and continues through signal
// frames. `exact`: registers->pc is an instruction, not a return address. Each stored frame minus 1 is within the
// frame's instruction. Returns the number of frames.
int zg_unwind_full(struct zg_registers *registers, bool exact, uint64_t *frames, int depth);

// The signal handler that a caller runs in, as found by unwinding.
struct zg_interruption {
    // Context that the handler will return to; 0 if there is no handler, or if unwinding failed.
    uint64_t context;
    uint64_t handler; // address in the function that the kernel has called
    uint64_t end;     // stack pointer of the outermost frame
    bool is_complete; // the outermost frame's unwind rules say that it has no caller; not checked with musl
    // Where the stack pointer `wanted` lies: in no frame that was found, in a frame of the handler, or further out.
    enum { zg_place_elsewhere, zg_place_within, zg_place_beyond } place;
};
// Finds the handler that has interrupted code with a stack pointer within [low, high); if there are several, the
// outermost one. `wanted`: stack pointer for which to determine `place`.
void zg_unwind_find_signal(struct zg_caller caller, uint64_t low, uint64_t high, uint64_t wanted,
                           struct zg_interruption *interruption);

// Whether unwinding reaches the signal frame that will return to `context`. `registers`: all registers, or only a
// caller's stack and frame pointers. Lost: unwinding ended before it reached a frame that is known to be the outermost.
enum zg_unwind_met { zg_unwind_met, zg_unwind_not_met, zg_unwind_lost };
enum zg_unwind_met zg_unwind_meets(struct zg_registers *registers, bool exact, uint64_t context);

// Whether there is unwind information for the code at this address.
bool zg_unwind_has_rules(uint64_t pc);
// Whether a walk has read the page of the address, and the page is outside of the running thread's own stack.
bool zg_unwind_has_read(uint64_t address);
// Set once the fault handler recovers from faults of zg_arch_try_read. Pages that were readable before are then read
// without probing.
extern bool zg_unwind_recovers;

// Drops all cached rules; call after an image was unloaded. Any thread.
void zg_unwind_invalidate_rules(void);
// Advanced by zg_unwind_invalidate_rules: anything derived from rules of an older epoch is invalid.
extern uint64_t zg_unwind_epoch;
#define ZG_UNWIND_EPOCH UINT64_C(0xa0761d6478bd6430) // 16 times an odd number, so that values do not return

#endif
