// What the runtime needs to know about the processor: system calls, registers of a signal context, stack switching.
// One arch_<processor>.c and one arch_<processor>.h each; nothing else in the runtime names a register.

#ifndef ZG_ARCH_H
#define ZG_ARCH_H

#include "include/zg_decode.h"
#include "platform/base.h"

#if defined(__x86_64__)
#include "platform/arch_x86_64.h"
#elif defined(__aarch64__)
#include "platform/arch_aarch64.h"
#else
#error "ZombieGuard runs on x86-64 and aarch64"
#endif

// Registers as the unwinder numbers them: DWARF numbers, and `pc` apart.
struct zg_registers {
    uint64_t value[ZG_ARCH_REGISTER_COUNT];
    uint64_t known; // bit i: value[i] is known
    uint64_t pc;
};

// Each also says in line:
// ZG_ARCH_FRAME() what is kept of a published function's frame while the runtime works for it: words 0 and 1 are its frame record,
// the caller's frame pointer and the return address. It is valid in the block that it stands in.
// zg_arch_caller_sp(frame), zg_arch_return_word(frame): the caller's stack pointer; where the return address is taken from.
// ZG_ARCH_TAGS: whether there are processors of this kind that tag memory; zg_arch_address(pointer), zg_arch_tag(pointer),
// zg_arch_with_tag(address, tag): see arch_aarch64.h.
// zg_arch_return_place(fp_place), zg_arch_strip(address), zg_arch_is_sp_exact(sp), ZG_ARCH_GUESSED_CFA: see arch_x86_64.h.

// Their names as a debugger has them; of `pc`, where it has no number among them (ZG_ARCH_PC), it is "pc".
extern const char *const zg_arch_register_names[ZG_ARCH_REGISTER_COUNT];
// All registers of an interrupted context.
void zg_arch_registers_from_context(struct zg_registers *registers, const void *ucontext);
// What the faulting instruction did, from the context's error code.
enum zg_fault_access zg_arch_fault_access(const void *ucontext);
// The fault came from an address that no memory can have: the kernel cannot name it (x86-64: general protection, trap 13) or names it
// without the bits that the processor ignores (AArch64: the top byte).
bool zg_arch_fault_without_address(const void *ucontext);
// The instruction may load a whole word into a register, which the program can follow from there. False for stores, comparisons,
// parts of words and vectors; true where too few bytes are known. Pure.
bool zg_arch_may_load_pointer(const uint8_t *code, int count);
// The registers that the instruction's memory operand is counted from, or that it jumps to: their values. 0 where it is not
// understood. Pure.
int zg_arch_operand_registers(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t values[2]);
// The place in memory that an indirect call or jump takes its target from; false for other instructions. Pure.
bool zg_arch_call_target_place(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t *place);
// Memory as zg_arch_follow sees it: words at multiples of 8.
struct zg_arch_memory {
    bool (*read)(void *context, uint64_t address, uint64_t *word);
    bool (*write)(void *context, uint64_t address, uint64_t word); // false: enough is known
    void *context;
};
enum zg_followed {
    zg_followed_lost,    // an instruction that is not understood, memory that cannot be read, too many instructions
    zg_followed_return,  // the function that the first instruction is in returns
    zg_followed_stopped, // a write said so
};
// What the instructions from registers->pc on would do, `most` at the most, without their being executed. All registers are known; the
// flags are not. Pure.
enum zg_followed zg_arch_follow(const struct zg_registers *registers, const struct zg_arch_memory *memory, int most);
// A call whose target could not be executed: back to the caller, whose return address `top_of_stack` is.
bool zg_arch_undo_call(struct zg_registers *registers, uint64_t top_of_stack);
// Vector loads that leave out what lies in a protected page, at a price: libc and compilers use them where they exist.
bool zg_arch_has_masked_loads(void);
uint64_t zg_arch_stack_pointer(const void *ucontext);
// What a signal's frame may take beyond what the kernel says of it (AT_MINSIGSTKSZ).
uint64_t zg_arch_unsaid_frame_bytes(void);
bool zg_arch_is_canonical(uint64_t address);
// What the processor takes this pointer for, and the kernel calls it: without the bits that it ignores.
uint64_t zg_arch_untag(uint64_t pointer);
// Tags of memory, where ZG_ARCH_TAGS. This processor has them, and the kernel says so. / Gives the granules of [start, start+bytes), whole
// ones, this tag; memory that was not mapped for tags has none, and stays as it is. / The
// tag of the granule at an address, which can be read. / Whether the thread's accesses are checked from here
// on, and whether they were: a signal handler's are when it begins, and what it interrupted goes on as before. / What the context goes on
// with is not checked.
bool zg_arch_has_tags(void);
void zg_arch_set_tags(uint64_t start, uint64_t bytes, uint32_t tag);
uint32_t zg_arch_memory_tag(uint64_t address);
bool zg_arch_check_tags(bool on);
void zg_arch_leave_unchecked(void *ucontext);
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
// The signal trampoline, which a handler returns to, where its instructions and not its frame information say what it is; `code`:
// ZG_ARCH_SIGNAL_RETURN_BYTES at its address. None where that is 0. / The context that it returns to, at this stack pointer. / The
// registers of that context; `registers` are those at the trampoline. False where they cannot be read.
bool zg_arch_is_signal_return(const uint8_t *code);
uint64_t zg_arch_signal_context(uint64_t sp);
bool zg_arch_return_from_signal(struct zg_registers *registers,
                                bool (*read)(void *context, uint64_t address, uint64_t *word), void *context);
// Returns from the handler of this context, with these signals held back and no single steps.
_Noreturn void zg_arch_resume(void *ucontext, uint64_t mask);
// The stack pointer, and the pc, that a jump (longjmp) to what this jmp_buf of libc's holds leads to.
void zg_arch_jump_target(const void *environment, uint64_t *sp, uint64_t *pc);
// In place of a return address: calls zg_arch_landed, which does not return.
void zg_arch_jump_landing(void);
extern void (*zg_arch_landed)(void) __attribute__((visibility("hidden")));

// Calls `function(a, b, c)` with the stack pointer at `stack_top` and returns when it returns. Signal context.
void zg_arch_call_on_stack(void (*function)(void *, void *, void *), void *a, void *b, void *c, void *stack_top);

// Detours: code that runs in front of a function of another image, and tells an observer the function's first argument. `frame` is
// as ZG_ARCH_FRAME() gives it.
typedef void zg_arch_observer(uint64_t argument, uint64_t number, const uint64_t *frame);
// Writes a detour of the function to `room`, which is where it will stand, no farther than ZG_ARCH_DETOUR_REACH from the function, and
// has ZG_ARCH_DETOUR_ROOM bytes.
// `code` holds `count` bytes of the function, 64 or more. The bytes written; 0 where the function's beginning cannot be moved.
uint32_t zg_arch_detour_write(uint8_t *room, uint64_t function, const uint8_t *code, uint32_t count,
                              zg_arch_observer *observe, uint32_t number);
// Writes the function's new beginning, which leads to the detour, over 16 bytes of its old one. The bytes written; 0 where that is too
// far away.
uint32_t zg_arch_detour_jump(uint8_t *code, uint64_t function, uint64_t room);

#endif
