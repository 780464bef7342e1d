// The out-of-line part of AArch64: registers of a signal context, and the switch to another stack.
// Signal context; takes no lock.

#if defined(__aarch64__)

#define _GNU_SOURCE
#include "platform/arch.h"

#include <asm/sigcontext.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "platform/arch_aarch64_decode.h"

// Exception classes of ESR_EL1 (Arm Architecture Reference Manual, D24.2.40) for aborts in user mode. Bits of data
// aborts: a write, and a cache maintenance instruction, which counts as a write but never writes.
enum {
    ESR_CLASS_SHIFT = 26,
    ESR_INSTRUCTION_ABORT = 0x20,
    ESR_DATA_ABORT = 0x24,
    ESR_WRITES = 1 << 6,
    ESR_MAINTAINS_CACHE = 1 << 8
};
enum { GENERAL_REGISTERS = 31, SINGLE_STEP = 1 << 21 };

uint32_t zg_arch_ticks_stopped;
// Replaces the counter if zg_arch_ticks_stopped is set: adds about as many ticks as pass between two calls.
uint64_t zg_arch_count_ticks(void) {
    static uint64_t counted = UINT64_C(1) << 40;
    return __atomic_add_fetch(&counted, 10, __ATOMIC_RELAXED);
}

const char *const zg_arch_register_names[ZG_ARCH_REGISTER_COUNT] = {
    "x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10", "x11", "x12", "x13", "x14", "x15",
    "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp"};

void zg_arch_registers_from_context(struct zg_registers *registers, const void *ucontext) {
    const mcontext_t *context = &((const ucontext_t *)ucontext)->uc_mcontext;
    for (int i = 0; i < GENERAL_REGISTERS; i++) registers->value[i] = context->regs[i];
    registers->value[ZG_ARCH_SP] = context->sp;
    registers->known = (UINT64_C(1) << ZG_ARCH_REGISTER_COUNT) - 1;
    registers->pc = context->pc;
}

// Returns the record of this kind behind the registers, or NULL. Each record begins with its kind and its length. Kind
// 0 ends the list. EXTRA_MAGIC leads to more records, which are not needed here.
static const void *find_record(const mcontext_t *context, uint32_t magic, uint32_t least_bytes) {
    const uint8_t *at = (const uint8_t *)context->__reserved, *end = at + sizeof context->__reserved;
    struct _aarch64_ctx head;
    while ((size_t)(end - at) >= sizeof head) {
        __builtin_memcpy(&head, at, sizeof head);
        if (head.size < sizeof head || head.size > (size_t)(end - at)) return NULL;
        if (head.magic == magic) return head.size >= least_bytes ? at : NULL;
        at += head.size;
    }
    return NULL;
}

// Returns the instruction at a context's pc, which is readable because it was executed. 0 (not a valid instruction) if
// the pc is not a valid address.
static uint32_t instruction_at(uint64_t pc) {
    uint32_t word = 0;
    if (pc >= ZG_PAGE_BYTES && zg_arch_is_canonical(pc))
        __builtin_memcpy(&word, (const void *)zg_arch_untag(pc), sizeof word);
    return word;
}

static bool is_near(uint64_t address, uint64_t place, uint64_t distance) {
    return address - place + distance <= 2 * distance;
}

// A copy instruction reads from one address and writes to another. The rest of the copy lies in front of the two
// registers' addresses or behind them: the processor may choose either (Arm Architecture Reference Manual, "Memory Copy
// and Memory Set").
static enum zg_fault_access access_of_copy(const mcontext_t *context, struct zg_a64 copy) {
    uint64_t address = context->fault_address, left = context->regs[copy.status];
    uint64_t distance = (int64_t)left < 0 ? -left : left;
    bool reads = is_near(address, context->regs[copy.index], distance);
    bool writes = is_near(address, context->regs[copy.base], distance);
    return reads == writes ? zg_fault_unknown : reads ? zg_fault_read : zg_fault_write;
}

// For an instruction that reads and writes, the kernel reports a read if the read would have failed as well. This
// function returns zg_fault_write in that case, too.
enum zg_fault_access zg_arch_fault_access(const void *ucontext) {
    const mcontext_t *context = &((const ucontext_t *)ucontext)->uc_mcontext;
    const struct esr_context *record = find_record(context, ESR_MAGIC, sizeof *record);
    uint32_t kind = record ? record->esr >> ESR_CLASS_SHIFT & 0x3f : 0;
    // qemu's user mode writes no record; there, a fault at the pc's own address is an instruction abort.
    if (kind == ESR_INSTRUCTION_ABORT || (!record && context->fault_address == context->pc)) return zg_fault_execute;
    if (record && kind != ESR_DATA_ABORT) return zg_fault_unknown;
    uint32_t word = instruction_at(context->pc);
    struct zg_a64 it = zg_a64_decode(word);
    if (!record) return it.kind == zg_a64_copy ? access_of_copy(context, it) : zg_fault_unknown;
    if (record->esr & ESR_WRITES) return record->esr & ESR_MAINTAINS_CACHE ? zg_fault_read : zg_fault_write;
    return zg_arch_decode_access((const uint8_t *)&word, sizeof word) == zg_fault_write ? zg_fault_write
                                                                                        : zg_fault_read;
}

// qemu's user mode reports address 0 if its host cannot report the address (x86-64: general protection).
bool zg_arch_fault_without_address(const void *ucontext) {
    uint64_t address = ((const ucontext_t *)ucontext)->uc_mcontext.fault_address;
    if (address != 0) return !zg_arch_is_canonical(address);
    struct zg_registers registers;
    zg_arch_registers_from_context(&registers, ucontext);
    uint32_t word = instruction_at(registers.pc);
    uint64_t operands[2];
    int count = zg_arch_operand_registers((const uint8_t *)&word, sizeof word, &registers, operands);
    for (int i = 0; i < count; i++) {
        if (!zg_arch_is_canonical(operands[i])) return true;
    }
    return false;
}

uint64_t zg_arch_stack_pointer(const void *ucontext) { return ((const ucontext_t *)ucontext)->uc_mcontext.sp; }

// The processor ignores the top byte (TBI). Bit 55 selects the half of the address space.
bool zg_arch_is_canonical(uint64_t address) { return zg_arch_untag(address) >> ZG_ARCH_ADDRESS_BITS == 0; }

uint64_t zg_arch_untag(uint64_t pointer) { return (uint64_t)((int64_t)(pointer << 8) >> 8); }

// A call leaves its return address in x30.
bool zg_arch_undo_call(struct zg_registers *registers, uint64_t top_of_stack) {
    (void)top_of_stack;
    uint64_t link = zg_arch_strip(registers->value[ZG_ARCH_RA]);
    if (!(registers->known >> ZG_ARCH_RA & 1) || !zg_arch_is_canonical(link) || link < ZG_PAGE_BYTES) return false;
    registers->pc = link;
    return true;
}

int zg_arch_pointer_registers(const void *ucontext, uint64_t *values, int most) {
    // Callee-saved and argument registers first: they hold objects more often than scratch registers do. Swift's self
    // is x20.
    static const uint8_t order[] = {0, 20, 19, 21, 22, 23, 24, 25, 26, 27, 28, 1, 2, 3,  4,
                                    8, 9,  10, 11, 12, 13, 14, 15, 16, 17, 5,  6, 7, 29, 30};
    const mcontext_t *context = &((const ucontext_t *)ucontext)->uc_mcontext;
    int count = 0;
    for (size_t i = 0; i < ZG_ARRAY_COUNT(order) && count < most; i++) values[count++] = context->regs[order[i]];
    return count;
}

void zg_arch_set_pc(void *ucontext, uint64_t pc) { ((ucontext_t *)ucontext)->uc_mcontext.pc = pc; }

bool zg_arch_is_translated(void) { return false; }

bool zg_arch_find_past_access(const uint8_t *code, int behind, int ahead, const struct zg_registers *registers,
                              uint64_t start, struct zg_past_access *found) {
    (void)code, (void)behind, (void)ahead, (void)registers, (void)start, (void)found;
    return false;
}

int zg_arch_replace_registers(void *ucontext, uint64_t old, uint64_t value) {
    mcontext_t *context = &((ucontext_t *)ucontext)->uc_mcontext;
    int count = 0;
    for (int i = 0; i < GENERAL_REGISTERS; i++)
        if (context->regs[i] == old) context->regs[i] = value, count++;
    if (context->pc == old) context->pc = value, count++;
    return count;
}

// x29 holds the old stack pointer, and the CFI names it as the frame's base, so unwinding through the switch works.
__asm__(".text\n"
        ".hidden zg_arch_call_on_stack\n"
        ".globl zg_arch_call_on_stack\n"
        ".type zg_arch_call_on_stack, %function\n"
        "zg_arch_call_on_stack:\n"
        ".cfi_startproc\n"
        "  stp x29, x30, [sp, #-16]!\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset x29, -16\n"
        ".cfi_offset x30, -8\n"
        "  mov x29, sp\n"
        ".cfi_def_cfa x29, 16\n"
        "  and x9, x4, #-16\n"
        "  mov x8, x0\n"
        "  mov x0, x1\n"
        "  mov x1, x2\n"
        "  mov x2, x3\n"
        "  mov sp, x9\n"
        "  blr x8\n"
        "  mov sp, x29\n"
        ".cfi_def_cfa sp, 16\n"
        "  ldp x29, x30, [sp], #16\n"
        ".cfi_def_cfa_offset 0\n"
        ".cfi_restore x29\n"
        ".cfi_restore x30\n"
        "  ret\n"
        ".cfi_endproc\n"
        ".size zg_arch_call_on_stack, .-zg_arch_call_on_stack\n");

// The fault handler recognizes the load at zg_arch_try_read_load, and continues at zg_arch_try_read_failed.
__asm__(".text\n"
        ".hidden zg_arch_try_read\n"
        ".globl zg_arch_try_read\n"
        ".type zg_arch_try_read, %function\n"
        "zg_arch_try_read:\n"
        ".cfi_startproc\n"
        "zg_arch_try_read_load:\n"
        "  ldr x2, [x0]\n"
        "  str x2, [x1]\n"
        "  mov w0, #1\n"
        "  ret\n"
        "zg_arch_try_read_failed:\n"
        "  mov w0, #0\n"
        "  ret\n"
        ".cfi_endproc\n"
        ".size zg_arch_try_read, .-zg_arch_try_read\n");
extern const char zg_arch_try_read_load[], zg_arch_try_read_failed[];

bool zg_arch_recover_read(void *ucontext) {
    mcontext_t *context = &((ucontext_t *)ucontext)->uc_mcontext;
    if (context->pc != (uint64_t)zg_arch_try_read_load) return false;
    context->pc = (uint64_t)zg_arch_try_read_failed;
    return true;
}

// The kernel's signal frame (struct rt_sigframe in arch/arm64/kernel/signal.c): the siginfo, then the ucontext, which
// has the layout of libc's ucontext_t.
enum { KERNEL_SIGINFO_BYTES = 128 };

bool zg_arch_is_fault(const void *ucontext) {
    const siginfo_t *info = (const void *)((const char *)ucontext - KERNEL_SIGINFO_BYTES);
    return info->si_code > 0 && (info->si_signo == SIGSEGV || info->si_signo == SIGBUS || info->si_signo == SIGILL ||
                                 info->si_signo == SIGFPE);
}

_Noreturn void zg_arch_resume(void *ucontext, uint64_t mask) {
    ucontext_t *context = ucontext;
    __builtin_memcpy(&context->uc_sigmask, &mask, sizeof mask);
    context->uc_mcontext.pstate &= ~(uint64_t)SINGLE_STEP;
    __asm__ volatile("mov sp, %0\n mov x8, %1\n svc #0\n brk #1" ::"r"((char *)ucontext - KERNEL_SIGINFO_BYTES),
                     "i"(SYS_rt_sigreturn)
                     : "memory");
    __builtin_unreachable();
}

// glibc stores x19 to x30, the stack pointer, and d8 to d15. The return address and the stack pointer are mangled with
// the process's pointer guard (PTR_MANGLE in glibc's sysdeps), which the loader keeps private: a jump buffer with known
// values reveals it.
enum { JUMP_LINK_AT = 11, JUMP_SP_AT = 13 };
void zg_arch_fill_jump(void *environment, uint64_t known[2]) __attribute__((visibility("hidden")));
__asm__(".text\n"
        ".hidden zg_arch_fill_jump\n"
        ".globl zg_arch_fill_jump\n"
        ".type zg_arch_fill_jump, %function\n"
        "zg_arch_fill_jump:\n" // known values that _setjmp stores: its return address, and the stack pointer
        ".cfi_startproc\n"
        "  stp x29, x30, [sp, #-16]!\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset x29, -16\n"
        ".cfi_offset x30, -8\n"
        "  mov x29, sp\n"
        "  adr x2, 1f\n"
        "  stp x2, x29, [x1]\n"
        "  bl _setjmp\n"
        "1:\n"
        "  ldp x29, x30, [sp], #16\n"
        ".cfi_def_cfa_offset 0\n"
        ".cfi_restore x29\n"
        ".cfi_restore x30\n"
        "  ret\n"
        ".cfi_endproc\n"
        ".size zg_arch_fill_jump, .-zg_arch_fill_jump\n");

void zg_arch_jump_target(const void *environment, uint64_t *sp, uint64_t *pc) {
    uint64_t own[64] = {0}, known[2]; // jmp_buf has 312 bytes
    const uint64_t *words = environment;
    zg_arch_fill_jump(own, known);
    *pc = words[JUMP_LINK_AT] ^ own[JUMP_LINK_AT] ^ known[0];
    *sp = words[JUMP_SP_AT] ^ own[JUMP_SP_AT] ^ known[1];
}

bool zg_arch_find_return(uint64_t pc, uint64_t low, uint64_t high, struct zg_arch_return *found) {
    (void)pc, (void)low, (void)high, (void)found;
    return false;
}

bool zg_arch_find_return_from(uint64_t start, uint64_t pc, uint64_t low, uint64_t high, struct zg_arch_return *found) {
    (void)start, (void)pc, (void)low, (void)high, (void)found;
    return false;
}

void (*zg_arch_landed)(void);

__asm__(".text\n"
        ".hidden zg_arch_jump_landing\n"
        ".globl zg_arch_jump_landing\n"
        ".type zg_arch_jump_landing, %function\n"
        "zg_arch_jump_landing:\n"
        ".cfi_startproc\n"
        ".cfi_undefined x30\n"
        "  adrp x16, zg_arch_landed\n"
        "  ldr x16, [x16, :lo12:zg_arch_landed]\n"
        "  blr x16\n"
        "  brk #1\n"
        ".cfi_endproc\n"
        ".size zg_arch_jump_landing, .-zg_arch_jump_landing\n");

// Size of SME's ZA array. The signal frame of a thread that uses the array contains it, but Linux (7.2) counts only the
// header in AT_MINSIGSTKSZ. The array has as many rows as a vector has bytes, at most 256. The actual size is not
// queried, because it depends on a thread's setting.
enum { HAS_MATRICES = 1 << 23 /* HWCAP2_SME */, MOST_VECTOR_BYTES = 256 };
uint64_t zg_arch_extra_signal_frame_bytes(void) {
    return getauxval(AT_HWCAP2) & HAS_MATRICES ? MOST_VECTOR_BYTES * MOST_VECTOR_BYTES : 0;
}

bool zg_arch_has_masked_loads(void) {
    return false; // masked loads of SVE skip inactive lanes at no cost
}

// The signal trampoline: mov x8, #__NR_rt_sigreturn; svc #0. Since 5.8, Linux gives it no CFI (before, its CFI named
// the link register instead of the interrupted pc), so unwinders recognize its instructions.
bool zg_arch_is_signal_return(const uint8_t *code) {
    static const uint32_t instructions[] = {0xd2801168, 0xd4000001};
    _Static_assert(sizeof instructions == ZG_ARCH_SIGNAL_RETURN_BYTES, "both");
    return __builtin_memcmp(code, instructions, sizeof instructions) == 0;
}

uint64_t zg_arch_signal_context(uint64_t sp) { return sp + KERNEL_SIGINFO_BYTES; }

bool zg_arch_return_from_signal(struct zg_registers *registers,
                                bool (*read)(void *context, uint64_t address, uint64_t *word), void *context) {
    uint64_t at = zg_arch_signal_context(registers->value[ZG_ARCH_SP]) + offsetof(ucontext_t, uc_mcontext.regs);
    struct zg_registers interrupted = {.known = (UINT64_C(1) << ZG_ARCH_REGISTER_COUNT) - 1};
    // x0 to x30, sp, and pc are adjacent.
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++)
        if (!read(context, at + (uint64_t)i * 8, &interrupted.value[i])) return false;
    if (!read(context, at + ZG_ARCH_REGISTER_COUNT * 8, &interrupted.pc)) return false;
    *registers = interrupted;
    return true;
}

#endif
