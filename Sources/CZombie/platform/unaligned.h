// Executes vector instructions that fault because their memory operand is not aligned to 16 bytes (x86-64: SSE, and the
// aligned moves of AVX). A copy of the instruction runs on the registers of the signal context: an aligned move becomes
// the unaligned move, any other instruction reads an aligned copy of its operand. So the processor itself computes the
// result. Instructions of AArch64 do not fault on unaligned operands, except atomic ones, which no other instruction
// can replace.

#ifndef ZG_UNALIGNED_H
#define ZG_UNALIGNED_H

#include "platform/base.h"

enum { ZG_UNALIGNED_BYTES = 16, ZG_UNALIGNED_CODE = 24 };

struct zg_unaligned {
    uint64_t address; // address of the operand of ZG_UNALIGNED_BYTES bytes
    // The replacement, whose operand's address is in rax, then a return instruction. Unused bytes are 0.
    uint8_t code[ZG_UNALIGNED_CODE];
    uint8_t length; // length of the program's instruction
    bool stores;    // the instruction writes the operand
    bool is_move;   // the replacement may access the operand where it is
    bool is_masked; // the instruction may access only a part of the operand
};

// Makes executable memory for the replacements, once. Returns false if the system refuses, or while another thread
// makes the memory. After false, no block may be less aligned than malloc's blocks. Any context but a signal handler's.
bool zg_unaligned_prepare(void);
// Decodes the instruction at the context's pc, whose first `count` bytes are at `code`. Returns false if it is not a
// vector instruction that requires alignment. Does not tell whether its operand is aligned.
bool zg_unaligned_read(struct zg_unaligned *it, const uint8_t *code, int count, const void *ucontext);
// Executes the instruction, and moves the context behind it. False if the replacement cannot be made executable. The
// operand must be accessible. Signal context, with signals blocked; one caller at a time.
bool zg_unaligned_execute(const struct zg_unaligned *it, void *ucontext);

// --- defined by each arch_<cpu>_unaligned.c --------------------------------------------------------------------------

// Returns false if no instruction of this processor needs a replacement.
bool zg_arch_has_unaligned(void);
bool zg_arch_unaligned_read(struct zg_unaligned *it, const uint8_t *code, int count, const void *ucontext);
// Writes the replacement of the `number`-th (from 0) of the most frequent instructions. Returns false past the last
// one.
bool zg_arch_unaligned_common(uint32_t number, uint8_t code[ZG_UNALIGNED_CODE]);
// Runs a replacement, which is executable at `code`, on the registers of the context.
void zg_arch_unaligned_run(const struct zg_unaligned *it, const void *code, void *ucontext);
// Changes the context as if the access had caused a page fault.
void zg_arch_unaligned_fail(const struct zg_unaligned *it, void *ucontext);

#endif
