// The out-of-line part of x86-64: registers of a signal context, and the switch to another stack.
// Signal context; takes no lock.

#if defined(__x86_64__)

#define _GNU_SOURCE
#include "platform/arch.h"

#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { ZG_TRAP_GENERAL_PROTECTION = 13, ZG_TRAP_PAGE_FAULT = 14, ZG_PF_WRITE = 2, ZG_PF_INSTRUCTION = 16 };

uint32_t zg_arch_ticks_stopped;
// Replaces the counter if zg_arch_ticks_stopped is set: adds about as many ticks as pass between two calls.
uint64_t zg_arch_count_ticks(void) {
    static uint64_t counted = UINT64_C(1) << 40;
    return __atomic_add_fetch(&counted, 1000, __ATOMIC_RELAXED);
}

const char *const zg_arch_register_names[ZG_ARCH_REGISTER_COUNT] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi",
                                                                    "rbp", "rsp", "r8",  "r9",  "r10", "r11",
                                                                    "r12", "r13", "r14", "r15", "rip"};

void zg_arch_registers_from_context(struct zg_registers *registers, const void *ucontext) {
    // DWARF order: rax rdx rcx rbx rsi rdi rbp rsp r8..r15, return address.
    static const int order[ZG_ARCH_REGISTER_COUNT] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                                      REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                      REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    const greg_t *gregs = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) registers->value[i] = (uint64_t)gregs[order[i]];
    registers->known = (UINT64_C(1) << ZG_ARCH_REGISTER_COUNT) - 1;
    registers->pc = (uint64_t)gregs[REG_RIP];
}

enum zg_fault_access zg_arch_fault_access(const void *ucontext) {
    const greg_t *gregs = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    if (gregs[REG_TRAPNO] != ZG_TRAP_PAGE_FAULT) return zg_fault_unknown;
    if (gregs[REG_ERR] & ZG_PF_INSTRUCTION) return zg_fault_execute;
    return gregs[REG_ERR] & ZG_PF_WRITE ? zg_fault_write : zg_fault_read;
}

bool zg_arch_fault_without_address(const void *ucontext) {
    return ((const ucontext_t *)ucontext)->uc_mcontext.gregs[REG_TRAPNO] == ZG_TRAP_GENERAL_PROTECTION;
}

uint64_t zg_arch_stack_pointer(const void *ucontext) {
    return (uint64_t)((const ucontext_t *)ucontext)->uc_mcontext.gregs[REG_RSP];
}

bool zg_arch_is_canonical(uint64_t address) { return (uint64_t)((int64_t)(address << 16) >> 16) == address; }

uint64_t zg_arch_untag(uint64_t pointer) { return pointer; }

bool zg_arch_undo_call(struct zg_registers *registers, uint64_t top_of_stack) {
    if (!zg_arch_is_canonical(top_of_stack) || top_of_stack < ZG_PAGE_BYTES) return false;
    registers->pc = top_of_stack;
    registers->value[ZG_ARCH_SP] += 8;
    registers->value[ZG_ARCH_RA] = top_of_stack;
    return true;
}

int zg_arch_pointer_registers(const void *ucontext, uint64_t *values, int most) {
    // Callee-saved and argument registers first: they hold objects more often than scratch registers do.
    static const int order[] = {REG_RDI, REG_RBX, REG_R13, REG_R12, REG_R14, REG_R15, REG_RSI, REG_RDX,
                                REG_RCX, REG_RAX, REG_R8,  REG_R9,  REG_R10, REG_R11, REG_RBP};
    const greg_t *gregs = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    int count = 0;
    for (size_t i = 0; i < ZG_ARRAY_COUNT(order) && count < most; i++) values[count++] = (uint64_t)gregs[order[i]];
    return count;
}

// Sends valgrind a request (RUNNING_ON_VALGRIND of valgrind.h). On a real processor its instructions have no effect.
bool zg_arch_is_translated(void) {
    const uint64_t request[6] = {0x1001};
    uint64_t answer = 0;
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(request)
                     : "cc", "memory");
    return answer != 0;
}

void zg_arch_set_pc(void *ucontext, uint64_t pc) { ((ucontext_t *)ucontext)->uc_mcontext.gregs[REG_RIP] = (greg_t)pc; }

int zg_arch_replace_registers(void *ucontext, uint64_t old, uint64_t value) {
    static const int order[] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_R8,
                                REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    greg_t *gregs = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
    int count = 0;
    for (size_t i = 0; i < ZG_ARRAY_COUNT(order); i++)
        if ((uint64_t)gregs[order[i]] == old) gregs[order[i]] = (greg_t)value, count++;
    return count;
}

// rbp holds the old stack pointer, and the CFI names it as the frame's base, so unwinding through the switch works.
__asm__(".text\n"
        ".hidden zg_arch_call_on_stack\n"
        ".globl zg_arch_call_on_stack\n"
        ".type zg_arch_call_on_stack, @function\n"
        "zg_arch_call_on_stack:\n"
        ".cfi_startproc\n"
        "  push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbp, -16\n"
        "  mov %rsp, %rbp\n"
        ".cfi_def_cfa_register %rbp\n"
        "  mov %r8, %rsp\n"
        "  and $-16, %rsp\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  mov %rdx, %rsi\n"
        "  mov %rcx, %rdx\n"
        "  call *%rax\n"
        "  mov %rbp, %rsp\n"
        "  pop %rbp\n"
        ".cfi_def_cfa %rsp, 8\n"
        "  ret\n"
        ".cfi_endproc\n"
        ".size zg_arch_call_on_stack, .-zg_arch_call_on_stack\n");

// The fault handler recognizes the load at zg_arch_try_read_load, and continues at zg_arch_try_read_failed.
__asm__(".text\n"
        ".hidden zg_arch_try_read\n"
        ".globl zg_arch_try_read\n"
        ".type zg_arch_try_read, @function\n"
        "zg_arch_try_read:\n"
        ".cfi_startproc\n"
        "zg_arch_try_read_load:\n"
        "  mov (%rdi), %rax\n"
        "  mov %rax, (%rsi)\n"
        "  mov $1, %eax\n"
        "  ret\n"
        "zg_arch_try_read_failed:\n"
        "  xor %eax, %eax\n"
        "  ret\n"
        ".cfi_endproc\n"
        ".size zg_arch_try_read, .-zg_arch_try_read\n");
extern const char zg_arch_try_read_load[], zg_arch_try_read_failed[];

bool zg_arch_recover_read(void *ucontext) {
    greg_t *gregs = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
    if (gregs[REG_RIP] != (greg_t)zg_arch_try_read_load) return false;
    gregs[REG_RIP] = (greg_t)zg_arch_try_read_failed;
    return true;
}

// The kernel's signal frame: its ucontext, which is shorter than libc's, then the siginfo.
enum { KERNEL_CONTEXT_BYTES = 304, SINGLE_STEP = 0x100 };

bool zg_arch_is_fault(const void *ucontext) {
    const siginfo_t *info = (const void *)((const char *)ucontext + KERNEL_CONTEXT_BYTES);
    return info->si_code > 0 && (info->si_signo == SIGSEGV || info->si_signo == SIGBUS || info->si_signo == SIGILL ||
                                 info->si_signo == SIGFPE);
}

_Noreturn void zg_arch_resume(void *ucontext, uint64_t mask) {
    ucontext_t *context = ucontext;
    __builtin_memcpy(&context->uc_sigmask, &mask, sizeof mask);
    context->uc_mcontext.gregs[REG_EFL] &= ~SINGLE_STEP;
    __asm__ volatile("mov %0, %%rsp\n mov %1, %%eax\n syscall\n ud2" ::"r"(ucontext), "i"(SYS_rt_sigreturn) : "memory");
    __builtin_unreachable();
}

// libc stores rbx, rbp, r12 to r15, rsp, and the pc. glibc mangles addresses with the thread's pointer guard at fs:0x30
// (PTR_MANGLE in its sysdeps).
void zg_arch_jump_target(const void *environment, uint64_t *sp, uint64_t *pc) {
    enum { SP_AT = 6, PC_AT = 7 };
    const uint64_t *words = environment;
#ifdef __GLIBC__
    enum { ROTATED = 17 };
    uint64_t guard;
    __asm__("mov %%fs:0x30, %0" : "=r"(guard));
    *sp = (words[SP_AT] >> ROTATED | words[SP_AT] << (64 - ROTATED)) ^ guard;
    *pc = (words[PC_AT] >> ROTATED | words[PC_AT] << (64 - ROTATED)) ^ guard;
#else
    *sp = words[SP_AT];
    *pc = words[PC_AT];
#endif
}

void (*zg_arch_landed)(void);

bool zg_arch_is_signal_return(const uint8_t *code) {
    (void)code;
    return false;
}

uint64_t zg_arch_signal_context(uint64_t sp) { return sp; }

bool zg_arch_return_from_signal(struct zg_registers *registers,
                                bool (*read)(void *context, uint64_t address, uint64_t *word), void *context) {
    (void)registers, (void)read, (void)context;
    return false;
}

__asm__(".text\n"
        ".hidden zg_arch_jump_landing\n"
        ".globl zg_arch_jump_landing\n"
        ".type zg_arch_jump_landing, @function\n"
        "zg_arch_jump_landing:\n"
        ".cfi_startproc\n"
        ".cfi_undefined %rip\n"
        "  and $-16, %rsp\n"
        "  call *zg_arch_landed(%rip)\n"
        "  ud2\n"
        ".cfi_endproc\n"
        ".size zg_arch_jump_landing, .-zg_arch_jump_landing\n");

uint64_t zg_arch_extra_signal_frame_bytes(void) { return 0; }

bool zg_arch_has_masked_loads(void) {
    uint32_t a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX512VL && b & bit_AVX512BW;
}

bool zg_arch_has_tags(void) { return false; }
void zg_arch_set_tags(uint64_t start, uint64_t bytes, uint32_t tag) { (void)start, (void)bytes, (void)tag; }
uint32_t zg_arch_memory_tag(uint64_t address) { return zg_arch_tag(address); }
bool zg_arch_check_tags(bool on) { return on; }
void zg_arch_leave_unchecked(void *ucontext) { (void)ucontext; }

#endif
