// From a fault to a verdict: pure. Everything it looks at comes in through `struct zg_fault`, so it runs in unit tests and
// on any recorded fault as well.

#ifndef ZG_DIAGNOSE_H
#define ZG_DIAGNOSE_H

#include "findings/finding.h"
#include "blocks/lookup.h"
#include "platform/arch.h"
#include "stacks/unwind.h"
#include "zombies/zombie.h"

enum { ZG_FAULT_POINTERS = 16, ZG_FAULT_STACK_WORDS = 256 };

struct zg_fault {
    uint64_t address;     // as the kernel names it
    uint64_t pointer;     // of a fault of memory tags (blocks/tags.h): the same with the tag; 0 of another fault
    bool without_address; // the kernel cannot name it: a non-canonical address
    enum zg_fault_access access;
    uint64_t pc, sp;
    struct zg_registers registers;
    uint8_t code[16]; // at pc; code_count bytes could be read
    int code_count;
    uint64_t pointers[ZG_FAULT_POINTERS];
    int pointer_count;
    uint64_t stack[ZG_FAULT_STACK_WORDS]; // words from sp upwards
    int stack_count;
    struct zg_stack_bounds bounds;
    bool fills_new; // new blocks are filled
    bool (*lookup)(uint64_t address, struct zg_block_view *view);
    bool (*is_ours)(uint64_t address);                   // the guarded heap's address space
    bool (*is_forgotten)(uint64_t address);              // blocks were there, of which nothing is known any more
    bool (*is_fenced)(const struct zg_block_view *view); // the block has pages of its own
    // Of a fault of memory tags: whose tag it is. And the registers of the memory operand as they are; others are without tags here.
    bool (*find_by_tag)(uint64_t pointer, struct zg_block_view *view, uint32_t *distance);
    uint64_t operands[2];
    int operand_count;
    struct zg_zombie_hit (*find_zombie)(uint64_t address, const uint64_t *likely, int likely_count);
};

struct zg_verdict {
    enum zg_finding_kind kind;
    const char *access, *confidence;
    uint64_t address;
    bool freed_memory; // has to do with freed memory: reported whoever handles the signal
    bool overrun;      // ran into pages that only we protect, or into what we left beside a block: the same
    bool is_forgotten; // of memory whose block is forgotten
    bool has_block;
    struct zg_block_view block;
    const char *read_from;  // what kind of memory the pointer was read from, where that explains it; NULL otherwise
    const char *freed_with; // of a mismatch; NULL otherwise
    // The nearest blocks on both sides of an address that is no block's.
    bool has_before, has_after;
    struct zg_block_view before, after;
    struct zg_zombie_hit trap; // part zg_trap_none: the fault was in no trap region
};

void zg_diagnose(const struct zg_fault *fault, struct zg_verdict *verdict);

#endif
