// What the runtime needs to know about the processor: system calls, registers of a signal context, stack switching.
// One arch_<processor>.c and one arch_<processor>.h each; nothing else in the runtime names a register.

#ifndef ZG_ARCH_H
#define ZG_ARCH_H

#include "platform/base.h"

#if defined(__x86_64__)
#include "platform/arch_x86_64.h"
#elif defined(__aarch64__)
#include "arch_aarch64.h"
#else
#error "ZombieGuard runs on x86-64 and aarch64"
#endif

// Registers as the unwinder numbers them: DWARF numbers, and `pc` apart.
struct zg_registers {
    uint64_t value[ZG_ARCH_REGISTER_COUNT];
    uint64_t known; // bit i: value[i] is known
    uint64_t pc;
};

enum zg_fault_access { zg_fault_unknown, zg_fault_read, zg_fault_write, zg_fault_execute };

// All registers of an interrupted context.
void zg_arch_registers_from_context(struct zg_registers *registers, const void *ucontext);
// What the faulting instruction did, from the context's error code.
enum zg_fault_access zg_arch_fault_access(const void *ucontext);
// The fault came from a non-canonical address: the kernel cannot name it (x86-64: general protection, trap 13).
bool zg_arch_fault_without_address(const void *ucontext);
// What the instruction does, from its bytes; unknown where it is not understood. Pure.
enum zg_fault_access zg_arch_decode_access(const uint8_t *code, int count);
// The instruction may load a whole word into a register, which the program can follow from there. False for stores, comparisons,
// parts of words and vectors; true where too few bytes are known. Pure.
bool zg_arch_may_load_pointer(const uint8_t *code, int count);
// The registers that the instruction's memory operand is counted from, or that it jumps to: their values. 0 where it is not
// understood. Pure.
int zg_arch_operand_registers(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t values[2]);
// The place in memory that an indirect call or jump takes its target from; false for other instructions. Pure.
bool zg_arch_call_target_place(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t *place);
// A call whose target could not be executed: back to the caller, whose return address `top_of_stack` is.
bool zg_arch_undo_call(struct zg_registers *registers, uint64_t top_of_stack);
// Vector loads that leave out what lies in a protected page, at a price: libc and compilers use them where they exist.
bool zg_arch_has_masked_loads(void);
uint64_t zg_arch_stack_pointer(const void *ucontext);
bool zg_arch_is_canonical(uint64_t address);
// Registers that may hold pointers, for the search of a stale one: writes at most `most` values, returns how many.
int zg_arch_pointer_registers(const void *ucontext, uint64_t *values, int most);

// Every general register of the context (and the pc) that holds `old` gets `value`. Returns how many did.
int zg_arch_replace_registers(void *ucontext, uint64_t old, uint64_t value);

// The signal that made this context was raised by an instruction, not sent. Only where its
// handler takes a siginfo is it in the frame.
bool zg_arch_is_fault(const void *ucontext);
// Reads the word at `address` (a multiple of 8) into `*word`. False where it cannot be read: the fault that this is has to be
// recovered, and kills the process where our handler is not in place.
bool zg_arch_try_read(uint64_t address, uint64_t *word);
// The context is of a fault of zg_arch_try_read, and goes on with its result from here.
bool zg_arch_recover_read(void *ucontext);
// Returns from the handler of this context, with these signals held back and no single steps.
_Noreturn void zg_arch_resume(void *ucontext, uint64_t mask);
// The stack pointer, and the pc, that a jump (longjmp) to what this jmp_buf of libc's holds leads to.
void zg_arch_jump_target(const void *environment, uint64_t *sp, uint64_t *pc);
// In place of a return address: calls zg_arch_landed, which does not return.
void zg_arch_jump_landing(void);
extern void (*zg_arch_landed)(void) __attribute__((visibility("hidden")));

// Calls `function(a, b, c)` with the stack pointer at `stack_top` and returns when it returns. Signal context.
void zg_arch_call_on_stack(void (*function)(void *, void *, void *), void *a, void *b, void *c, void *stack_top);

#endif
