// Replaces x86-64 vector instructions whose memory operand is not aligned to 16 bytes. Such an instruction raises a
// general protection exception, and the kernel sends SIGSEGV without an address.
// Signal context; no lock.

#if defined(__x86_64__)

#define _GNU_SOURCE
#include "platform/unaligned.h"

#include <ucontext.h>

#include "platform/arch_x86_64_instructions.h"

enum { LOAD, STORE, OTHER };
enum { NO_PREFIX, P66, PF3, PF2 }; // as VEX encodes them
enum { RETURN = 0xc3, MAP_0F = 1, MAP_0F38 = 2, LARGEST_IMMEDIATE = 1 };

bool zg_arch_has_unaligned(void) { return true; }

// An aligned move of a whole vector, and the unaligned move that replaces it (tables of volume 2 of Intel's
// manual). Non-temporal moves differ from other moves only in what they do to the caches.
static const struct move {
    uint8_t map, prefix, opcode, to_prefix, to_opcode, kind;
} moves[] = {
    {MAP_0F, NO_PREFIX, 0x28, NO_PREFIX, 0x10, LOAD},  // movaps
    {MAP_0F, P66, 0x28, P66, 0x10, LOAD},              // movapd
    {MAP_0F, NO_PREFIX, 0x29, NO_PREFIX, 0x11, STORE}, // movaps
    {MAP_0F, P66, 0x29, P66, 0x11, STORE},             // movapd
    {MAP_0F, P66, 0x6f, PF3, 0x6f, LOAD},              // movdqa
    {MAP_0F, P66, 0x7f, PF3, 0x7f, STORE},             // movdqa
    {MAP_0F, NO_PREFIX, 0x2b, NO_PREFIX, 0x11, STORE}, // movntps
    {MAP_0F, P66, 0x2b, P66, 0x11, STORE},             // movntpd
    {MAP_0F, P66, 0xe7, PF3, 0x7f, STORE},             // movntdq
    {MAP_0F38, P66, 0x2a, PF3, 0x6f, LOAD},            // movntdqa
};

static const struct move *find_move(uint8_t map, uint8_t prefix, uint8_t opcode) {
    for (size_t i = 0; i < ZG_ARRAY_COUNT(moves); i++)
        if (moves[i].map == map && moves[i].prefix == prefix && moves[i].opcode == opcode) return &moves[i];
    return NULL;
}

static uint8_t prefix_of(const struct zg_x64 *it) {
    if (it->prefixes & ZG_X64_REPEAT) return PF3;
    if (it->prefixes & ZG_X64_REPEAT_NOT) return PF2;
    return it->prefixes & ZG_X64_OPERAND_SIZE ? P66 : NO_PREFIX;
}

// ModRM byte for the operand at (rax).
static uint8_t modrm_of(const struct zg_x64 *it) { return (uint8_t)((it->reg & 7) << 3); }

static void use_move(struct zg_unaligned *to, const struct move *move) {
    to->is_move = true;
    to->stores = move->kind == STORE;
}

static bool replace_legacy(struct zg_unaligned *to, const struct zg_x64 *it, const uint8_t *code) {
    static const uint8_t prefix_bytes[] = {[P66] = 0x66, [PF3] = 0xf3, [PF2] = 0xf2};
    uint8_t *at = to->code, prefix = prefix_of(it), opcode = it->opcode, map = MAP_0F;
    if (it->map == zg_x64_map_0f38) map = MAP_0F38;
    else if (it->map != zg_x64_map_0f) map = 0;
    int immediate = it->length - it->operand_end;
    const struct move *move = find_move(map, prefix, opcode);
    if (move) use_move(to, move);
    else if (it->operation < zg_x64_vector_load || it->stores || immediate > LARGEST_IMMEDIATE) return false;
    if (move) prefix = move->to_prefix;
    if (prefix) *at++ = prefix_bytes[prefix];
    uint8_t rex = it->rex & (ZG_X64_REX_W | ZG_X64_REX_R);
    if (rex) *at++ = 0x40 | rex;
    *at++ = 0x0f;
    if (move) {
        opcode = move->to_opcode;
    } else if (it->map != zg_x64_map_0f) {
        *at++ = it->map == zg_x64_map_0f38 ? 0x38 : 0x3a;
    }
    *at++ = opcode;
    *at++ = modrm_of(it);
    if (immediate) *at++ = code[it->operand_end];
    *at = RETURN;
    return true;
}

// Returns the first byte behind prefixes that only pad the instruction.
static const uint8_t *skip_padding(const uint8_t *code) {
    while (*code == 0x26 || *code == 0x2e || *code == 0x36 || *code == 0x3e) code++;
    return code;
}

// Replaces a move with VEX or EVEX, and keeps the mask of EVEX. The prefixes store the bits R, X, B and vvvv inverted.
// Moves of 32 and 64 bytes are not replaced: they need more alignment than malloc promises, so no program relies on
// malloc for them.
static bool replace_vex(struct zg_unaligned *to, const struct zg_x64 *it, const uint8_t *code) {
    enum { VEX_2 = 0xc5, EVEX = 0x62, VEX_3_BYTES = 3, VEX_4_BYTES = 4, EVEX_5_BYTES = 5 };
    enum {
        VEX_LENGTH = 4,
        EVEX_LENGTH = 0x60,
        EVEX_BROADCAST = 0x10,
        EVEX_MASK = 7,
        NOT_X_B = 0x60,
        NO_OPERAND = 0x78
    };
    const uint8_t *end = code + it->opcode_end;
    int64_t bytes = end - skip_padding(code);
    uint8_t *at = to->code;
    if (bytes == VEX_3_BYTES) {
        const struct move *move = find_move(MAP_0F, end[-2] & 3, it->opcode);
        if (!move || end[-2] & VEX_LENGTH) return false;
        use_move(to, move);
        *at++ = VEX_2;
        *at++ = (end[-2] & ~3) | move->to_prefix;
        *at++ = move->to_opcode;
    } else if (bytes == VEX_4_BYTES) {
        const struct move *move = find_move(end[-3] & 0x1f, end[-2] & 3, it->opcode);
        if (!move || end[-2] & VEX_LENGTH) return false;
        use_move(to, move);
        *at++ = 0xc4;
        *at++ = (end[-3] & 0x80) | NOT_X_B | MAP_0F;
        *at++ = NO_OPERAND | move->to_prefix;
        *at++ = move->to_opcode;
    } else {
        const struct move *move = find_move(end[-4] & 7, end[-3] & 3, it->opcode);
        if (bytes != EVEX_5_BYTES || !move || end[-2] & (EVEX_LENGTH | EVEX_BROADCAST)) return false;
        use_move(to, move);
        to->is_masked = end[-2] & EVEX_MASK;
        *at++ = EVEX;
        *at++ = (end[-4] & 0x90) | NOT_X_B | MAP_0F;
        *at++ = (end[-3] & ~3) | move->to_prefix;
        *at++ = end[-2];
        *at++ = move->to_opcode;
    }
    *at++ = modrm_of(it);
    *at = RETURN;
    return true;
}

// Returns the displacement. EVEX scales an 8-bit displacement by the size of the vector.
static int64_t displacement_of(const struct zg_x64 *it, const uint8_t *code) {
    bool is_short = code[it->opcode_end] >> 6 == 1, is_evex = it->map == zg_x64_map_vex && *skip_padding(code) == 0x62;
    return it->displacement * (is_short && is_evex ? ZG_UNALIGNED_BYTES : 1);
}

static uint64_t value_of(const ucontext_t *context, uint8_t number) {
    static const int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)context->uc_mcontext.gregs[order[number]];
}

bool zg_arch_unaligned_read(struct zg_unaligned *to, const uint8_t *code, int count, const void *ucontext) {
    struct zg_x64 it = zg_x64_read(code, count);
    if (!it.has_modrm || !it.in_memory || it.from_pc || it.length > count) return false;
    if (it.prefixes & (ZG_X64_ADDRESS_SIZE | ZG_X64_FS | ZG_X64_GS) || it.map == zg_x64_map_1) return false;
    bool done = it.map == zg_x64_map_vex ? replace_vex(to, &it, code) : replace_legacy(to, &it, code);
    to->address = (uint64_t)displacement_of(&it, code);
    if (it.base != ZG_X64_NO_REGISTER) to->address += value_of(ucontext, it.base);
    if (it.index != ZG_X64_NO_REGISTER) to->address += value_of(ucontext, it.index) << it.scale;
    to->length = (uint8_t)it.length;
    return done;
}

bool zg_arch_unaligned_common(uint32_t number, uint8_t code[ZG_UNALIGNED_CODE]) {
    // The forms are movups loads, movups stores, movdqu loads and movdqu stores, each for 16 registers.
    enum { REGISTERS = 16, FORMS = 4 };
    static const uint8_t forms[FORMS][2] = {{0, 0x10}, {0, 0x11}, {0xf3, 0x6f}, {0xf3, 0x7f}};
    uint32_t form = number / REGISTERS, reg = number % REGISTERS;
    if (form >= FORMS) return false;
    if (forms[form][0]) *code++ = forms[form][0];
    if (reg >= REGISTERS / 2) *code++ = 0x40 | ZG_X64_REX_R;
    *code++ = 0x0f;
    *code++ = forms[form][1];
    *code++ = (uint8_t)((reg & 7) << 3);
    *code = RETURN;
    return true;
}

// Loads the floating-point, vector and mask registers from `state`, and the flags, calls `code` with rax = operand, and
// stores the registers. Then resets the x87 unit and MXCSR to the state in which the kernel starts a handler. Returns
// the flags.
uint64_t zg_arch_unaligned_call(void *state, uint64_t components, const void *code, uint64_t operand, uint64_t flags)
    __attribute__((visibility("hidden")));
__asm__(".text\n"
        ".hidden zg_arch_unaligned_call\n"
        ".globl zg_arch_unaligned_call\n"
        ".type zg_arch_unaligned_call, @function\n"
        "zg_arch_unaligned_call:\n"
        ".cfi_startproc\n"
        "  mov %rdx, %r10\n"
        "  xor %edx, %edx\n"
        "  mov %esi, %eax\n" // edx:eax selects the components
        "  test %esi, %esi\n"
        "  jz 1f\n"
        "  xrstor64 (%rdi)\n"
        "  jmp 2f\n"
        "1: fxrstor64 (%rdi)\n"
        "2: mov %rcx, %rax\n"
        "  push %r8\n"
        ".cfi_adjust_cfa_offset 8\n"
        "  popfq\n"
        ".cfi_adjust_cfa_offset -8\n"
        "  call *%r10\n"
        "  pushfq\n"
        ".cfi_adjust_cfa_offset 8\n"
        "  pop %r8\n"
        ".cfi_adjust_cfa_offset -8\n"
        "  mov %esi, %eax\n"
        "  test %esi, %esi\n"
        "  jz 3f\n"
        "  xsave64 (%rdi)\n"
        "  jmp 4f\n"
        "3: fxsave64 (%rdi)\n"
        "4: fninit\n"
        "  pushq $0x1f80\n"
        ".cfi_adjust_cfa_offset 8\n"
        "  ldmxcsr (%rsp)\n"
        "  pop %rax\n"
        ".cfi_adjust_cfa_offset -8\n"
        "  mov %r8, %rax\n"
        "  ret\n"
        ".cfi_endproc\n"
        ".size zg_arch_unaligned_call, .-zg_arch_unaligned_call\n");

// Returns the components of the state that the kernel has stored and that an instruction may change: x87, SSE, AVX and
// AVX-512. 0 if the state has the older format, with x87 and SSE alone.
static uint64_t components_of(const char *state) {
    enum { SOFTWARE_AT = 464, EXTENDED = 0x46505853, VECTORS = 0xe7 }; // struct _fpx_sw_bytes of asm/sigcontext.h
    uint32_t magic;
    uint64_t components;
    __builtin_memcpy(&magic, state + SOFTWARE_AT, sizeof magic);
    __builtin_memcpy(&components, state + SOFTWARE_AT + 8, sizeof components);
    return magic == EXTENDED ? components & VECTORS : 0;
}

void zg_arch_unaligned_run(const struct zg_unaligned *it, const void *code, void *ucontext) {
    enum { MXCSR_AT = 24, MXCSR_FLAGS = 0x3f, MXCSR_MASKS = 0x1f80, FLAGS = 0x8d5, FLAGS_ALWAYS = 0x202 };
    enum { RESUME_FLAG = 0x10000 };
    static uint8_t operand[ZG_UNALIGNED_BYTES] __attribute__((aligned(16)));
    greg_t *registers = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
    char *state = (char *)((ucontext_t *)ucontext)->uc_mcontext.fpregs;
    uint32_t before, masked, after;
    uint64_t address = it->address;
    if (!it->is_move) {
        __builtin_memcpy(operand, (const void *)address, sizeof operand);
        address = (uint64_t)operand;
    }
    // Mask all floating-point exceptions: one that the program has unmasked would end the handler. If an exception
    // occurs, the instruction computes its masked result and sets the exception's flag.
    __builtin_memcpy(&before, state + MXCSR_AT, sizeof before);
    masked = before | MXCSR_MASKS;
    __builtin_memcpy(state + MXCSR_AT, &masked, sizeof masked);
    uint64_t flags = (uint64_t)registers[REG_EFL] & FLAGS;
    flags = zg_arch_unaligned_call(state, components_of(state), code, address, flags | FLAGS_ALWAYS);
    __builtin_memcpy(&after, state + MXCSR_AT, sizeof after);
    after = before | (after & MXCSR_FLAGS);
    __builtin_memcpy(state + MXCSR_AT, &after, sizeof after);
    registers[REG_EFL] = (registers[REG_EFL] & ~(FLAGS | RESUME_FLAG)) | (greg_t)(flags & FLAGS);
    registers[REG_RIP] += it->length;
}

void zg_arch_unaligned_fail(const struct zg_unaligned *it, void *ucontext) {
    enum { PAGE_FAULT = 14, WRITES = 2, IN_USER_MODE = 4 };
    greg_t *registers = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
    registers[REG_TRAPNO] = PAGE_FAULT;
    registers[REG_ERR] = IN_USER_MODE | (it->stores ? WRITES : 0);
}

#endif
