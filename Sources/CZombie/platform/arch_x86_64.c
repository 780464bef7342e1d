// x86-64 out of line: registers of a signal context and the switch to another stack.
// Signal context; takes no lock.

#if defined(__x86_64__)

#define _GNU_SOURCE
#include "platform/arch.h"

#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { ZG_TRAP_GENERAL_PROTECTION = 13, ZG_TRAP_PAGE_FAULT = 14, ZG_PF_WRITE = 2, ZG_PF_INSTRUCTION = 16 };

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

bool zg_arch_undo_call(struct zg_registers *registers, uint64_t top_of_stack) {
    if (!zg_arch_is_canonical(top_of_stack) || top_of_stack < ZG_PAGE_BYTES) return false;
    registers->pc = top_of_stack;
    registers->value[ZG_ARCH_SP] += 8;
    registers->value[ZG_ARCH_RA] = top_of_stack;
    return true;
}

static bool is_legacy_prefix(uint8_t byte) {
    return byte == 0x66 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x3e || byte == 0x64 || byte == 0x65 ||
           byte == 0xf0;
}

// Intel SDM volume 2, appendix A: prefixes, REX, then the opcodes that store to memory; every other one loads.
enum zg_fault_access zg_arch_decode_access(const uint8_t *code, int count) {
    int i = 0;
    bool operand_size = count > 0 && code[0] == 0x66, repeat_not = false;
    for (int j = 0; j < count && j < 4; j++) repeat_not |= code[j] == 0xf2;
    while (i < count && (is_legacy_prefix(code[i]) || code[i] == 0x67)) i++;
    if (i < count && (code[i] & 0xf0) == 0x40) i++;
    if (i + 1 >= count) return zg_fault_unknown;
    uint8_t op = code[i], modrm = code[i + 1], extension = modrm >> 3 & 7;
    if (op == 0xff) return extension == 2 || extension == 4 ? zg_fault_execute : extension < 2 ? zg_fault_write : zg_fault_read;
    if (op == 0xc3 || op == 0xc2) return zg_fault_execute;
    if (op == 0x88 || op == 0x89 || op == 0xc6 || op == 0xc7 || op == 0x8f || op == 0x86 || op == 0x87) return zg_fault_write;
    if (op == 0xa4 || op == 0xa5 || op == 0xaa || op == 0xab) return zg_fault_write; // string moves and stores
    if (op < 0x40 && (op & 7) < 2 && (op & 0x38) != 0x38) return zg_fault_write;     // arithmetic to memory, not cmp
    if (op >= 0x80 && op <= 0x83) return extension == 7 ? zg_fault_read : zg_fault_write;
    if (op == 0xd0 || op == 0xd1 || op == 0xd2 || op == 0xd3 || op == 0xc0 || op == 0xc1) return zg_fault_write;
    if (op == 0xfe) return zg_fault_write;
    if (op == 0xf6 || op == 0xf7) return extension == 2 || extension == 3 ? zg_fault_write : zg_fault_read; // not, neg
    if (op == 0xd9) return extension == 2 || extension == 3 || extension >= 6 ? zg_fault_write : zg_fault_read; // x87 stores
    if (op == 0xdb) return (extension >= 1 && extension <= 3) || extension == 7 ? zg_fault_write : zg_fault_read;
    if (op == 0xdd || op == 0xdf)
        return (extension >= 1 && extension <= 3) || extension >= 6 ? zg_fault_write : zg_fault_read;
    if (op == 0x0f && i + 2 < count) {
        uint8_t third = code[i + 2], extension_2 = third >> 3 & 7;
        switch (modrm) { // the second opcode byte here
        case 0x38: return third == 0xf1 && !repeat_not ? zg_fault_write : zg_fault_read; // movbe; with F2 crc32
        case 0x3a: return third >= 0x14 && third <= 0x17 ? zg_fault_write : zg_fault_read; // pextr
        case 0xba: return extension_2 >= 5 ? zg_fault_write : zg_fault_read;               // bts, btr, btc
        case 0xc7: return extension_2 == 1 ? zg_fault_write : zg_fault_read;               // cmpxchg8b, cmpxchg16b
        case 0x7e: return operand_size ? zg_fault_write : zg_fault_read;                   // movd; F3: movq load
        case 0xab: case 0xb3: case 0xbb: case 0xa4: case 0xa5: case 0xac: case 0xad: case 0xc3: return zg_fault_write;
        default: break;
        }
    }
    if (op == 0x0f) {
        if (modrm == 0x11 || modrm == 0x29 || modrm == 0x2b || modrm == 0x7f || modrm == 0xd6 || modrm == 0xe7 ||
            modrm == 0xb0 || modrm == 0xb1 || modrm == 0xc0 || modrm == 0xc1 || modrm == 0x13 || modrm == 0x17 ||
            (modrm >= 0x90 && modrm <= 0x9f))
            return zg_fault_write;
        return zg_fault_read;
    }
    if (op == 0xc5 || op == 0xc4 || op == 0x62) return zg_fault_unknown; // VEX, EVEX
    return zg_fault_read;
}

bool zg_arch_may_load_pointer(const uint8_t *code, int count) {
    int i = 0;
    bool is_wide = false;
    while (i < count && is_legacy_prefix(code[i])) i++;
    if (i < count && (code[i] & 0xf0) == 0x40) is_wide = code[i++] & 8;
    return i >= count || (is_wide && code[i] == 0x8b);
}

static const uint8_t dwarf[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15}; // processor's order to DWARF's

static bool has_modrm(uint8_t op) {
    if (op < 0x40) return (op & 7) < 4;
    return op == 0x63 || op == 0x69 || op == 0x6b || (op >= 0x80 && op <= 0x8f) || op == 0xc0 || op == 0xc1 || op == 0xc6 ||
           op == 0xc7 || (op >= 0xd0 && op <= 0xd3) || (op >= 0xd8 && op <= 0xdf) || op == 0xf6 || op == 0xf7 || op >= 0xfe;
}

// Of the two-byte opcodes that read memory through a ModRM byte; system instructions, jumps and the like are left out.
static bool has_modrm_after_0f(uint8_t op) {
    return (op >= 0x10 && op <= 0x17) || op == 0x1f || (op >= 0x28 && op <= 0x2f) || (op >= 0x40 && op <= 0x76) ||
           (op >= 0x7c && op <= 0x7f) || (op >= 0x90 && op <= 0x9f) || (op >= 0xa3 && op <= 0xa5) || op == 0xab ||
           (op >= 0xac && op <= 0xaf) || (op >= 0xb0 && op <= 0xc7) || op >= 0xd0 || op == 0x0d || op == 0x18;
}

// Of an instruction with a ModRM byte.
struct operand {
    bool jumps;             // FF /2 and FF /4: a call or jump to what the operand holds
    bool in_memory;         // not a register
    bool in_segment;        // counted from a segment's base as well
    int count;              // registers that it is counted from, or that it is
    uint64_t registers[2];  // their values
    uint64_t address;       // without the segment's base
};

// Intel SDM volume 2, sections 2.1 to 2.3 and 2.7: legacy prefixes, REX, VEX and EVEX in front of opcode, ModRM, SIB and
// displacement. False where it is none of these, is cut off, or counts from the instruction itself.
static bool decode_operand(const uint8_t *code, int count, const struct zg_registers *registers, struct operand *operand) {
    uint8_t bytes[32] = {0}, rex = 0;
    int i = 0;
    count = count < 16 ? count : 16; // the longest instruction has 15
    for (int j = 0; j < count; j++) bytes[j] = code[j];
    *operand = (struct operand){0};
    for (; i < count && is_legacy_prefix(bytes[i]); i++) operand->in_segment |= bytes[i] == 0x64 || bytes[i] == 0x65;
    if ((bytes[i] & 0xf0) == 0x40) rex = bytes[i++];
    uint8_t opcode = bytes[i];
    if (opcode == 0xc5) i += 3;
    else if (opcode == 0xc4) rex = (uint8_t)~bytes[i + 1] >> 5, i += 4;
    else if (opcode == 0x62) rex = (uint8_t)~bytes[i + 1] >> 5, i += 5;
    else if (opcode != 0x0f && has_modrm(opcode)) i++;
    else if (opcode == 0x0f && (bytes[i + 1] == 0x38 || bytes[i + 1] == 0x3a)) i += 3;
    else if (opcode == 0x0f && has_modrm_after_0f(bytes[i + 1])) i += 2;
    else return false;
    uint8_t modrm = bytes[i++], mod = modrm >> 6, base = modrm & 7, extension = modrm >> 3 & 7;
    operand->jumps = opcode == 0xff && (extension == 2 || extension == 4);
    operand->in_memory = mod != 3;
    int32_t distance = 0;
    int distance_bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    bool has_sib = operand->in_memory && base == 4, has_base = true;
    if (mod == 0 && base == 5) return false;
    if (has_sib) {
        uint8_t sib = bytes[i++], index = (uint8_t)((sib >> 3 & 7) | (rex & 2) << 2);
        base = sib & 7;
        if (mod == 0 && base == 5) has_base = false, distance_bytes = 4;
        if (index != 4) {
            uint64_t value = registers->value[dwarf[index]];
            operand->registers[operand->count++] = value;
            operand->address += value << (sib >> 6);
        }
    }
    if (has_base) {
        uint64_t value = registers->value[dwarf[base | (rex & 1) << 3]];
        operand->registers[operand->count++] = value;
        operand->address += value;
    }
    if (distance_bytes == 1) distance = (int8_t)bytes[i];
    else if (distance_bytes == 4) __builtin_memcpy(&distance, bytes + i, sizeof distance);
    operand->address += (uint64_t)(int64_t)distance;
    return i + distance_bytes <= count;
}

int zg_arch_operand_registers(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t values[2]) {
    struct operand operand;
    if (!decode_operand(code, count, registers, &operand) || !(operand.in_memory || operand.jumps)) return 0;
    for (int i = 0; i < operand.count; i++) values[i] = operand.registers[i];
    return operand.count;
}

bool zg_arch_call_target_place(const uint8_t *code, int count, const struct zg_registers *registers, uint64_t *place) {
    struct operand operand;
    if (!decode_operand(code, count, registers, &operand)) return false;
    if (!operand.jumps || !operand.in_memory || operand.in_segment) return false;
    *place = operand.address;
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

int zg_arch_replace_registers(void *ucontext, uint64_t old, uint64_t value) {
    static const int order[] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_R8,
                                REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    greg_t *gregs = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
    int count = 0;
    for (size_t i = 0; i < ZG_ARRAY_COUNT(order); i++)
        if ((uint64_t)gregs[order[i]] == old) gregs[order[i]] = (greg_t)value, count++;
    return count;
}

// rbp keeps the old stack pointer and is described as the frame's base, so unwinding through the switch works.
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

// The kernel's frame of a handler: its ucontext, shorter than libc's, then the siginfo.
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

void (*zg_arch_landed)(void);

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

bool zg_arch_has_masked_loads(void) {
    uint32_t a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX512VL && b & bit_AVX512BW;
}

#endif
