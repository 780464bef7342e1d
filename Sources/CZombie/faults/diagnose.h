// Turns a fault into a verdict. Pure: all input is in `struct zg_fault`, so unit tests and recorded faults can use it.

#ifndef ZG_DIAGNOSE_H
#define ZG_DIAGNOSE_H

#include "findings/finding.h"
#include "blocks/lookup.h"
#include "platform/arch.h"
#include "stacks/unwind.h"
#include "zombies/zombie.h"

enum { ZG_FAULT_POINTERS = 16, ZG_FAULT_STACK_WORDS = 256, ZG_FAULT_CODE_BEFORE = 24, ZG_FAULT_WORDS_BELOW = 16 };

struct zg_fault {
    uint64_t address; // address as the kernel reports it
    // `address` with the pointer's memory tag (blocks/tags.h); 0 if the pointer has no tag
    uint64_t pointer;
    bool is_watched;       // a watchpoint has noticed the access (heap/watchpoints.h)
    bool is_non_canonical; // the kernel does not report the address: it is non-canonical
    enum zg_fault_access access;
    uint64_t pc, sp;
    struct zg_registers registers;
    uint8_t code[16]; // instruction at pc; code_count bytes were readable
    int code_count;
    // Code in front of the pc; the last before_count bytes were readable
    uint8_t before[ZG_FAULT_CODE_BEFORE];
    int before_count;
    uint64_t pointers[ZG_FAULT_POINTERS];
    int pointer_count;
    uint64_t stack[ZG_FAULT_STACK_WORDS]; // words from sp upwards
    int stack_count;
    uint64_t below[ZG_FAULT_WORDS_BELOW]; // words below sp that a function without calls may use, from sp downwards
    int below_count;
    struct zg_stack_bounds bounds;
    bool fills_new; // option fill_new: new blocks are filled
    bool (*lookup)(uint64_t address, struct zg_block_view *view);
    // Reads a word of memory; false if that is impossible. NULL: no memory is read.
    bool (*read_word)(uint64_t address, uint64_t *word);
    // Whether the address lies in the guarded heap's address space.
    bool (*is_ours)(uint64_t address);
    // Whether the address belonged to blocks whose records no longer exist.
    bool (*is_forgotten)(uint64_t address);
    bool (*is_isolated)(const struct zg_block_view *view); // whether the block is isolated
    // For faults of memory tags: finds the block that has the pointer's tag, `*distance` slots away. `operands`:
    // registers of the memory operand, with tags; all other registers here have their tags removed.
    bool (*find_by_tag)(uint64_t pointer, struct zg_block_view *view, uint32_t *distance);
    uint64_t operands[2];
    int operand_count;
    struct zg_zombie_hit (*find_zombie)(uint64_t address, const uint64_t *likely, int likely_count);
};

struct zg_verdict {
    enum zg_finding_kind kind;
    const char *access, *confidence;
    const char *evidence; // reason for the choice of the block, if it is inferred: a clause; NULL if there is none
    uint64_t address;
    // The fault is about freed memory: it is reported even if the program handles the signal
    bool freed_memory;
    // The fault hit a page that only the runtime protects, or a red zone: it is reported even if the program handles
    // the signal
    bool overrun;
    bool is_forgotten; // a block was there, but its record no longer exists
    bool has_block;
    struct zg_block_view block;
    // Kind of memory from which the pointer was read, if that explains the fault; otherwise NULL
    const char *read_from;
    // For a mismatch: function that freed the block; otherwise NULL
    const char *freed_with;
    // Nearest blocks on both sides, if the address belongs to no block.
    bool has_before, has_after;
    struct zg_block_view before, after;
    struct zg_zombie_hit trap; // part zg_trap_none: the fault was in no trap region
};

void zg_diagnose(const struct zg_fault *fault, struct zg_verdict *verdict);

#endif
