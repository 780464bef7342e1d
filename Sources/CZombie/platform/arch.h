// The runtime's interface to the processor: system calls, registers of a signal context, instruction decoding, memory
// tags, stack switching, detours. Each processor has an arch_<cpu>.h and several arch_<cpu>*.c; no other file of the
// runtime names a register.

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

// Registers, indexed by DWARF register number; `pc` separately.
struct zg_registers {
    uint64_t value[ZG_ARCH_REGISTER_COUNT];
    uint64_t known; // bit i: value[i] is known
    uint64_t pc;
};

// Each arch_<cpu>.h also defines inline:
// ZG_ARCH_FRAME(): the parts of a published function's frame that the runtime needs during the call. Words 0 and 1 are
// the frame record: the caller's frame pointer and the return address. Valid in the enclosing C block.
// zg_arch_caller_sp(frame): the caller's stack pointer. zg_arch_return_word(frame): the word from which the function
// loads its return address.
// ZG_ARCH_TAGS: 1 if processors of this architecture may have memory tags. zg_arch_address(pointer),
// zg_arch_tag(pointer), and zg_arch_with_tag(address, tag): see arch_aarch64.h.
// ZG_ARCH_ENCODED_REGISTERS, ZG_ARCH_INSTRUCTION_BYTES, ZG_ARCH_ASSUMES_ZEROS, zg_arch_dwarf_number(number): for the
// emulators.
// ZG_ARCH_CODE_UNIT: instructions begin at multiples of this number of bytes.
// zg_arch_return_place(fp_place), zg_arch_strip(address), zg_arch_is_sp_exact(sp), ZG_ARCH_GUESSED_CFA: see
// arch_x86_64.h.

// Register names as in a debugger, by DWARF number. The pc is called "pc" if its number (ZG_ARCH_PC) is not in the
// array.
extern const char *const zg_arch_register_names[ZG_ARCH_REGISTER_COUNT];
// Stores all registers of an interrupted context in `registers`.
void zg_arch_registers_from_context(struct zg_registers *registers, const void *ucontext);
// Returns the access of the faulting instruction, according to the error code in the signal context.
enum zg_fault_access zg_arch_fault_access(const void *ucontext);
// Returns true if the faulting address is not canonical, so that no memory can have it. The kernel then reports no
// address (x86-64: general protection, trap 13), or reports it without the bits that the processor ignores (AArch64:
// the top byte).
bool zg_arch_fault_without_address(const void *ucontext);
// Returns true if the instruction may load a whole word into a register, so that the program can then use it as a
// pointer. False for stores, comparisons, parts of words, and vectors; true if too few bytes are known. Pure.
bool zg_arch_may_load_pointer(const uint8_t *code, int count);
// Stores the values of the registers that form the address of the instruction's memory operand or jump target. Returns
// their number; 0 if the instruction is not understood. Pure.
int zg_arch_operand_registers(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t values[2]);
// Finds the memory word from which an indirect call or jump takes its target. False for other instructions. Pure.
bool zg_arch_call_target_place(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t *place);
// Decodes a load of a whole word into a register that now holds `value`. If the registers of its operand have not
// changed since, stores the base register's value and the address of the word. False for other instructions. Pure.
bool zg_arch_loaded_from(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t value,
                         uint64_t *base, uint64_t *place);
// Sets `registers` to the state after a return from a call whose target could not be executed. `top_of_stack` is the
// word at the stack pointer. False if the return address is invalid.
bool zg_arch_undo_call(struct zg_registers *registers, uint64_t top_of_stack);
// Returns true if the processor has masked vector loads, which libc and compilers then use, and which are slow when a
// masked-out element lies in a protected page (pages/overread.h).
bool zg_arch_has_masked_loads(void);
uint64_t zg_arch_stack_pointer(const void *ucontext);
// Returns the bytes that a signal frame may need beyond the kernel's AT_MINSIGSTKSZ.
uint64_t zg_arch_extra_signal_frame_bytes(void);
bool zg_arch_is_canonical(uint64_t address);
// Removes the bits that the processor ignores, as the kernel does when it reports an address.
uint64_t zg_arch_untag(uint64_t pointer);
// Returns true if this processor has memory tags (ZG_ARCH_TAGS), according to the kernel.
bool zg_arch_has_tags(void);
// Sets the tag of the granules in [start, start+bytes), a whole number of granules. Memory that was not mapped for tags
// does not change.
void zg_arch_set_tags(uint64_t start, uint64_t bytes, uint32_t tag);
// Returns the tag of the granule at a readable address.
uint32_t zg_arch_memory_tag(uint64_t address);
// Turns the calling thread's tag checks on or off; returns the previous setting. The checks are on when a signal
// handler starts; a return from the handler restores the interrupted setting.
bool zg_arch_check_tags(bool on);
// Turns tag checks off for the interrupted context.
void zg_arch_leave_unchecked(void *ucontext);
// Stores up to `most` registers that may hold pointers, for the search for a stale pointer. Returns their number.
int zg_arch_pointer_registers(const void *ucontext, uint64_t *values, int most);

// The access of an instruction that has just been executed.
struct zg_past_access {
    enum zg_fault_access access; // zg_fault_read or zg_fault_write
    uint64_t pc;                 // address of the instruction
    uint64_t address;            // its memory operand; 0 if the instruction has overwritten an address register
    bool is_vector;              // the operand may be longer than 8 bytes, and perhaps only a part of it is accessed
    int lost_register;           // DWARF number of the base register that the instruction has overwritten; -1: none
    uint64_t lost_offset;        // distance of the operand's address from that register's former value
};
// Finds the instruction that has accessed a byte of [start, start + 8), given the registers after it. `code` holds the
// `behind` bytes before the pc, at most ZG_ARCH_CODE_BEHIND, and the `ahead` bytes from the pc on. False if the
// instruction is not found, not understood, or reads under a mask. Pure. Defined if ZG_ARCH_TRAPS_AFTER_ACCESS.
enum { ZG_ARCH_CODE_BEHIND = 64 };
bool zg_arch_find_past_access(const uint8_t *code, int behind, int ahead, const struct zg_registers *registers,
                              uint64_t start, struct zg_past_access *found);
// Returns true if valgrind executes the process. Set no watchpoints then: valgrind would execute a trapped instruction
// again and again. Defined if ZG_ARCH_TRAPS_AFTER_ACCESS.
bool zg_arch_is_translated(void);
// Sets the pc of a signal's context.
void zg_arch_set_pc(void *ucontext, uint64_t pc);

// zguard runs this code in a stopped thread to fork the process. The code reads its parameters from
// zg_arch_snapshot_words (struct zg_layout_snapshot). Defined if ZG_ARCH_SNAPSHOT.
extern const char zg_arch_snapshot[] __attribute__((visibility("hidden")));
extern uint64_t zg_arch_snapshot_words[];

// Replaces `old` by `value` in all general registers and the pc of the context. Returns the number of replacements.
int zg_arch_replace_registers(void *ucontext, uint64_t old, uint64_t value);

// Returns true if an instruction raised the signal of this context, false if a system call sent it. Valid only for
// handlers with SA_SIGINFO, because other frames contain no siginfo.
bool zg_arch_is_fault(const void *ucontext);
// Reads the word at `address` (a multiple of 8) into `*word`. Returns false if the word is unreadable, provided that
// the fault handler calls zg_arch_recover_read. Without the runtime's handler, the fault ends the process.
bool zg_arch_try_read(uint64_t address, uint64_t *word);
// Returns true if the context is a fault of zg_arch_try_read, and makes that function return false.
bool zg_arch_recover_read(void *ucontext);
// Returns true if `code` is the signal trampoline, to which handlers return. `code` holds ZG_ARCH_SIGNAL_RETURN_BYTES
// bytes. If that constant is 0, the unwinder recognizes the trampoline by its CFI, and this function returns false.
bool zg_arch_is_signal_return(const uint8_t *code);
// Returns the address of the signal context that the trampoline restores, given the stack pointer at the trampoline.
uint64_t zg_arch_signal_context(uint64_t sp);
// Replaces the registers at the signal trampoline by the interrupted registers. False if the context is unreadable.
bool zg_arch_return_from_signal(struct zg_registers *registers,
                                bool (*read)(void *context, uint64_t address, uint64_t *word), void *context);
// Frame layout at a pc: the caller's stack pointer is `cfa` bytes above the stack pointer. The saved frame pointer is
// `fp_back` bytes below the caller's stack pointer; 0 if the function has not changed the frame pointer.
struct zg_arch_return {
    uint64_t cfa, fp_back;
};
// Finds the frame layout from the instructions between `pc` and a return instruction. `pc` is the address of an
// instruction or of the last byte of a call. [low, high) is readable code around `pc`. False if the instructions do not
// determine the layout, and always on AArch64, where functions keep frame records.
bool zg_arch_find_return(uint64_t pc, uint64_t low, uint64_t high, struct zg_arch_return *found);
// Finds the frame layout from the instructions between `start` and `pc`, for a function that begins at `start` and
// never returns.
bool zg_arch_find_return_from(uint64_t start, uint64_t pc, uint64_t low, uint64_t high, struct zg_arch_return *found);
// Returns from the signal handler of this context, with signal mask `mask` and without single-stepping.
_Noreturn void zg_arch_resume(void *ucontext, uint64_t mask);
// Returns the stack pointer and the pc at which a longjmp to this jmp_buf of libc continues.
void zg_arch_jump_target(const void *environment, uint64_t *sp, uint64_t *pc);
// Used as a return address: calls zg_arch_landed, which does not return.
void zg_arch_jump_landing(void);
extern void (*zg_arch_landed)(void) __attribute__((visibility("hidden")));

// Calls `function(a, b, c)` with the stack pointer at `stack_top`, and then returns on the old stack. Signal context.
void zg_arch_call_on_stack(void (*function)(void *, void *, void *), void *a, void *b, void *c, void *stack_top);

// Detours: code that runs before a function of another image and passes the function's first argument to an observer.
// `frame` is as from ZG_ARCH_FRAME().
typedef void zg_arch_observer(uint64_t argument, uint64_t number, const uint64_t *frame);
// Writes a detour of the function to `room`, its final place: ZG_ARCH_DETOUR_ROOM bytes, no farther than
// ZG_ARCH_DETOUR_REACH from the function. `code` holds the function's first `count` bytes, at least 64. Returns the
// bytes written; 0 if the function's first instructions cannot be moved.
uint32_t zg_arch_detour_write(uint8_t *room, uint64_t function, const uint8_t *code, uint32_t count,
                              zg_arch_observer *observe, uint32_t number);
// Writes a jump to the detour over the function's beginning (16 bytes at `code`). Returns the bytes written; 0 if the
// detour is too far away.
uint32_t zg_arch_detour_jump(uint8_t *code, uint64_t function, uint64_t room);

#endif
