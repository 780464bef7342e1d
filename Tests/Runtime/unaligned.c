// Executes vector instructions on unaligned operands by their replacements, and on aligned copies by the processor.
// processor: x86_64
// qemu-user: it does not raise the exception for operands that are not aligned
// link: runtime

// All registers, flags and memory must agree.

#include <cpuid.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "check.h"
#include "platform/unaligned.h"

enum { ROUNDS = 24, STATE_BYTES = 8192, VECTORS_AT = 160, HEADER_AT = 512, MEMORY_BYTES = 256, OPERAND_AT = 128 };
enum { NONE, P66, PF3, PF2 };
enum { LEGACY = 1, LEGACY_38 = 2, LEGACY_3A = 4, IMMEDIATE = 8, STORES = 16, VEX = 32, EVEX = 64 };

// Opcodes whose memory operand must be aligned: volume 2 of Intel's manual, by opcode.
static const struct opcodes {
    uint8_t first, last, prefix, form;
    const char *needs; // flag of the processor, or NULL
} opcodes[] = {
    {0x28, 0x28, NONE, LEGACY | VEX | EVEX, NULL},
    {0x28, 0x28, P66, LEGACY | VEX | EVEX, NULL},
    {0x29, 0x29, NONE, LEGACY | VEX | EVEX | STORES, NULL},
    {0x29, 0x29, P66, LEGACY | VEX | EVEX | STORES, NULL},
    {0x2b, 0x2b, NONE, LEGACY | VEX | EVEX | STORES, NULL},
    {0x2b, 0x2b, P66, LEGACY | VEX | EVEX | STORES, NULL},
    {0x6f, 0x6f, P66, LEGACY | VEX | EVEX, NULL},
    {0x7f, 0x7f, P66, LEGACY | VEX | EVEX | STORES, NULL},
    {0xe7, 0xe7, P66, LEGACY | VEX | EVEX | STORES, NULL},
    {0x2a, 0x2a, P66, LEGACY_38 | VEX | EVEX, "sse4.1"},
    {0x12, 0x12, PF3, LEGACY, NULL}, // movsldup
    {0x16, 0x16, PF3, LEGACY, NULL}, // movshdup
    {0x14, 0x15, NONE, LEGACY, NULL},
    {0x14, 0x15, P66, LEGACY, NULL},
    {0x2c, 0x2d, P66, LEGACY, NULL}, // cvttpd2pi, cvtpd2pi: an MMX register
    {0x51, 0x59, NONE, LEGACY, NULL},
    {0x51, 0x51, P66, LEGACY, NULL},
    {0x54, 0x5a, P66, LEGACY, NULL},
    {0x5b, 0x5f, NONE, LEGACY, NULL},
    {0x5b, 0x5f, P66, LEGACY, NULL},
    {0x5b, 0x5b, PF3, LEGACY, NULL},
    {0x60, 0x6d, P66, LEGACY, NULL},
    {0x70, 0x70, P66, LEGACY | IMMEDIATE, NULL},
    {0x70, 0x70, PF3, LEGACY | IMMEDIATE, NULL},
    {0x70, 0x70, PF2, LEGACY | IMMEDIATE, NULL},
    {0x74, 0x76, P66, LEGACY, NULL},
    {0x7c, 0x7d, P66, LEGACY, NULL},
    {0x7c, 0x7d, PF2, LEGACY, NULL},
    {0xc2, 0xc2, NONE, LEGACY | IMMEDIATE, NULL},
    {0xc2, 0xc2, P66, LEGACY | IMMEDIATE, NULL},
    {0xc6, 0xc6, NONE, LEGACY | IMMEDIATE, NULL},
    {0xc6, 0xc6, P66, LEGACY | IMMEDIATE, NULL},
    {0xd0, 0xd5, P66, LEGACY, NULL},
    {0xd0, 0xd0, PF2, LEGACY, NULL},
    {0xd8, 0xe6, P66, LEGACY, NULL},
    {0xe6, 0xe6, PF2, LEGACY, NULL},
    {0xe8, 0xef, P66, LEGACY, NULL},
    {0xf1, 0xf6, P66, LEGACY, NULL},
    {0xf8, 0xfe, P66, LEGACY, NULL},
    {0x00, 0x0b, P66, LEGACY_38, "ssse3"},
    {0x10, 0x10, P66, LEGACY_38, "sse4.1"},
    {0x14, 0x15, P66, LEGACY_38, "sse4.1"},
    {0x17, 0x17, P66, LEGACY_38, "sse4.1"}, // ptest: the flags
    {0x1c, 0x1e, P66, LEGACY_38, "ssse3"},
    {0x28, 0x29, P66, LEGACY_38, "sse4.1"},
    {0x2b, 0x2b, P66, LEGACY_38, "sse4.1"},
    {0x37, 0x37, P66, LEGACY_38, "sse4.2"},
    {0x38, 0x41, P66, LEGACY_38, "sse4.1"},
    {0xcf, 0xcf, P66, LEGACY_38, "gfni"},
    {0xdb, 0xdf, P66, LEGACY_38, "aes"},
    {0xc8, 0xcd, NONE, LEGACY_38, "sha"},
    {0x08, 0x09, P66, LEGACY_3A | IMMEDIATE, "sse4.1"},
    {0x0c, 0x0e, P66, LEGACY_3A | IMMEDIATE, "sse4.1"},
    {0x0f, 0x0f, P66, LEGACY_3A | IMMEDIATE, "ssse3"},
    {0x40, 0x42, P66, LEGACY_3A | IMMEDIATE, "sse4.1"},
    {0x44, 0x44, P66, LEGACY_3A | IMMEDIATE, "pclmul"},
    {0xce, 0xcf, P66, LEGACY_3A | IMMEDIATE, "gfni"},
    {0xdf, 0xdf, P66, LEGACY_3A | IMMEDIATE, "aes"},
    {0xcc, 0xcc, NONE, LEGACY_3A | IMMEDIATE, "sha"},
};

static uint64_t random_state = 11;
static uint64_t draw(uint64_t count) { return work_random(&random_state) % count; }
static void draw_bytes(void *to, size_t count) {
    for (size_t i = 0; i < count; i++) ((uint8_t *)to)[i] = (uint8_t)draw(256);
}

static bool has(const char *flag) {
    uint32_t a, b, c, d, c7 = 0, b7 = 0;
    __cpuid_count(7, 0, a, b7, c7, d);
    __cpuid(1, a, b, c, d);
    if (!flag) return c & 1; // SSE3
    if (!strcmp(flag, "ssse3")) return c >> 9 & 1;
    if (!strcmp(flag, "sse4.1")) return c >> 19 & 1;
    if (!strcmp(flag, "sse4.2")) return c >> 20 & 1;
    if (!strcmp(flag, "pclmul")) return c >> 1 & 1;
    if (!strcmp(flag, "aes")) return c >> 25 & 1;
    if (!strcmp(flag, "sha")) return b7 >> 29 & 1;
    if (!strcmp(flag, "gfni")) return c7 >> 8 & 1;
    if (!strcmp(flag, "avx")) return (c >> 28 & 1) && (c >> 27 & 1);
    if (!strcmp(flag, "avx512vl")) return b7 >> 31 & 1;
    return false;
}

// --- running an instruction ----------------------------------------------------------------------------------------

// State of a run. `vectors` is an xsave area with x87, SSE, AVX and AVX-512.
struct state {
    _Alignas(64) uint8_t vectors[STATE_BYTES];
    uint64_t registers[16], flags;
    _Alignas(64) uint8_t memory[MEMORY_BYTES];
};
static struct state start, native, replaced;
static uint8_t *code;
static uint64_t components;
static int carried, refused;

static void handle(int number, siginfo_t *info, void *context) {
    (void)number;
    struct zg_unaligned it;
    ucontext_t *interrupted = context;
    const uint8_t *at = (const uint8_t *)interrupted->uc_mcontext.gregs[REG_RIP];
    if (info->si_code == SI_KERNEL && zg_unaligned_read(&it, at, 15, context) && zg_unaligned_execute(&it, context)) {
        carried++;
        return;
    }
    refused++;
    interrupted->uc_mcontext.gregs[REG_RIP] += 64; // skips the instruction: `ret` follows there, too
}

// Runs the code at `code` with the vectors, flags and registers of the state, except rsp, and stores them there again.
void run_code(struct state *state, const void *code, uint64_t components);
__asm__("run_code:\n push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n push %rdi\n push %rdx\n"
        " mov %rsi, own_code(%rip)\n mov %rdi, own_state(%rip)\n mov %rsp, own_sp(%rip)\n"
        " mov %edx, %eax\n xor %edx, %edx\n xrstor64 (%rdi)\n"
        " pushq 8192+128(%rdi)\n popfq\n"
        " mov 8192+0(%rdi), %rax\n mov 8192+8(%rdi), %rcx\n mov 8192+16(%rdi), %rdx\n mov 8192+24(%rdi), %rbx\n"
        " mov 8192+40(%rdi), %rbp\n mov 8192+48(%rdi), %rsi\n"
        " mov 8192+64(%rdi), %r8\n mov 8192+72(%rdi), %r9\n mov 8192+80(%rdi), %r10\n mov 8192+88(%rdi), %r11\n"
        " mov 8192+96(%rdi), %r12\n mov 8192+104(%rdi), %r13\n mov 8192+112(%rdi), %r14\n mov 8192+120(%rdi), %r15\n"
        " mov 8192+56(%rdi), %rdi\n"
        " call *own_code(%rip)\n"
        " mov own_sp(%rip), %rsp\n" // moves do not change flags
        " push %rdi\n pushfq\n mov own_state(%rip), %rdi\n pop 8192+128(%rdi)\n"
        " mov %rax, 8192+0(%rdi)\n mov %rcx, 8192+8(%rdi)\n mov %rdx, 8192+16(%rdi)\n mov %rbx, 8192+24(%rdi)\n"
        " mov %rbp, 8192+40(%rdi)\n mov %rsi, 8192+48(%rdi)\n pop 8192+56(%rdi)\n"
        " mov %r8, 8192+64(%rdi)\n mov %r9, 8192+72(%rdi)\n mov %r10, 8192+80(%rdi)\n mov %r11, 8192+88(%rdi)\n"
        " mov %r12, 8192+96(%rdi)\n mov %r13, 8192+104(%rdi)\n mov %r14, 8192+112(%rdi)\n mov %r15, 8192+120(%rdi)\n"
        " mov (%rsp), %rax\n xor %edx, %edx\n xsave64 (%rdi)\n"
        " fninit\n movl $0x1f80, own_sp(%rip)\n ldmxcsr own_sp(%rip)\n"
        " pop %rdx\n pop %rdi\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
        ".local own_code, own_state, own_sp\n.comm own_code,8,8\n.comm own_state,8,8\n.comm own_sp,8,8\n");
_Static_assert(offsetof(struct state, registers) == 8192 && offsetof(struct state, flags) == 8192 + 128, "as above");

// --- instructions --------------------------------------------------------------------------------------------------

struct instruction {
    uint8_t bytes[64];
    int length, base, index, scale;
    int32_t displacement;
    bool may_be_unaligned; // some processors (AMD's Zen 4) do not require alignment: SHA, masked moves
};

static void put(struct instruction *to, uint32_t byte) { to->bytes[to->length++] = (uint8_t)byte; }

// Writes ModRM, SIB and displacement of an operand at base + (index << scale) + displacement.
static void put_operand(struct instruction *to, int reg, bool is_evex) {
    int mod = (int)draw(3), bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if (mod == 0 && (to->base & 7) == 5) mod = 1, bytes = 1;
    bool has_sib = to->index >= 0 || (to->base & 7) == 4;
    put(to, (uint32_t)(mod << 6 | (reg & 7) << 3 | (has_sib ? 4 : to->base & 7)));
    if (has_sib) put(to, (uint32_t)(to->scale << 6 | ((to->index < 0 ? 4 : to->index) & 7) << 3 | (to->base & 7)));
    int8_t small = (int8_t)draw(256);
    int32_t large = (int32_t)draw(65536) - 32768;
    to->displacement = bytes == 1 ? small * (is_evex ? 16 : 1) : bytes == 4 ? large : 0;
    if (bytes == 1) put(to, (uint8_t)small);
    for (int i = 0; bytes == 4 && i < 4; i++) put(to, (uint32_t)large >> 8 * i & 0xff);
}

static void draw_place(struct instruction *to) {
    do to->base = (int)draw(16);
    while (to->base == 4);
    to->index = draw(2) ? (int)draw(16) : -1;
    if (to->index == 4 || to->index == to->base) to->index = -1;
    to->scale = to->index < 0 ? 0 : (int)draw(4);
}

// Returns an instruction with random operands. `encoding`: LEGACY, VEX (of 2 or 3 bytes), or EVEX (sometimes masked).
static struct instruction make(const struct opcodes *group, uint8_t opcode, int encoding) {
    static const uint8_t prefixes[] = {[P66] = 0x66, [PF3] = 0xf3, [PF2] = 0xf2};
    struct instruction to = {.length = 0};
    draw_place(&to);
    bool is_mmx = opcode == 0x2c || opcode == 0x2d;
    int reg = (int)draw(is_mmx ? 8 : 16), map = group->form & LEGACY_38 ? 2 : 1;
    uint32_t x = to.index >= 8, b = to.base >= 8, r = reg >= 8;
    to.may_be_unaligned = group->needs && !strcmp(group->needs, "sha");
    if (draw(8) == 0) put(&to, 0x2e); // pads
    if (encoding == LEGACY) {
        if (group->prefix) put(&to, prefixes[group->prefix]);
        uint32_t rex = 0x40 | (uint32_t)draw(2) << 3 | r << 2 | x << 1 | b;
        if (rex != 0x40 || draw(2)) put(&to, rex);
        put(&to, 0x0f);
        if (group->form & LEGACY_38) put(&to, 0x38);
        if (group->form & LEGACY_3A) put(&to, 0x3a);
    } else if (encoding == VEX) {
        if (map == 1 && !x && !b && draw(2)) {
            put(&to, 0xc5);
            put(&to, (!r) << 7 | 0x78 | group->prefix);
        } else {
            put(&to, 0xc4);
            put(&to, (uint32_t)(!r) << 7 | (uint32_t)(!x) << 6 | (uint32_t)(!b) << 5 | (uint32_t)map);
            put(&to, (uint32_t)draw(2) << 7 | 0x78 | group->prefix);
        }
    } else {
        bool is_plain = opcode == 0x2b || opcode == 0xe7 || opcode == 0x2a; // these allow no mask, and one value of W
        uint32_t high = (uint32_t)draw(2), mask = is_plain ? 0 : (uint32_t)draw(8);
        uint32_t w = opcode == 0x6f || opcode == 0x7f   ? (uint32_t)draw(2)
                     : opcode == 0xe7 || opcode == 0x2a ? 0
                                                        : group->prefix == P66;
        uint32_t z = mask && !(group->form & STORES) ? (uint32_t)draw(2) : 0;
        put(&to, 0x62);
        put(&to,
            (uint32_t)(!r) << 7 | (uint32_t)(!x) << 6 | (uint32_t)(!b) << 5 | (uint32_t)(!high) << 4 | (uint32_t)map);
        put(&to, w << 7 | 0x7c | group->prefix);
        put(&to, z << 7 | 8 | mask);
        to.may_be_unaligned = mask;
    }
    put(&to, opcode);
    put_operand(&to, reg, encoding == EVEX);
    if (group->form & IMMEDIATE) put(&to, (uint32_t)draw(256));
    return to;
}

static void draw_state(void) {
    draw_bytes(&start, sizeof start);
    memset(start.vectors, 0, HEADER_AT + 64);
    draw_bytes(start.vectors + VECTORS_AT, 256);
    uint32_t control = 0x1f80 | (uint32_t)draw(4) << 13;
    memcpy(start.vectors + 24, &control, sizeof control);
    uint16_t word = 0x37f;
    memcpy(start.vectors, &word, sizeof word);
    uint64_t used = components & (draw(4) ? ~UINT64_C(0) : ~UINT64_C(0xe4)); // the upper halves may be unused
    memcpy(start.vectors + HEADER_AT, &used, sizeof used);
    start.flags = 0x202 | (draw(0x1000) & 0x8d5);
}

// Sets the registers of the state so that the operand is at `at`.
static void aim(struct state *state, const struct instruction *it, const uint8_t *at) {
    uint64_t rest = it->index < 0 ? 0 : state->registers[it->index] << it->scale;
    state->registers[it->base] = (uint64_t)at - rest - (uint64_t)(int64_t)it->displacement;
}

static void check(const struct instruction *it, int encoding) {
    char text[200];
    int end = 0, offset = OPERAND_AT + 1 + (int)draw(15);
    for (int i = 0; i < it->length; i++) end += snprintf(text + end, sizeof text - (size_t)end, "%02x", it->bytes[i]);
    snprintf(text + end, sizeof text - (size_t)end, " (encoding %d)", encoding);
    draw_state();
    memset(code, 0x90, 128);
    memcpy(code, it->bytes, (size_t)it->length);
    code[it->length] = code[it->length + 64] = code[127] = 0xc3;
    native = replaced = start;
    memcpy(native.memory + OPERAND_AT, start.memory + offset, ZG_UNALIGNED_BYTES);
    aim(&native, it, native.memory + OPERAND_AT);
    aim(&replaced, it, replaced.memory + offset);
    carried = refused = 0;
    run_code(&native, code, components);
    if (carried || refused) {
        CHECK(false, text);
        return;
    }
    run_code(&replaced, code, components);
    if (!CHECK((carried == 1 || it->may_be_unaligned) && !refused, text)) return;
    CHECK(!memcmp(native.memory + OPERAND_AT, replaced.memory + offset, ZG_UNALIGNED_BYTES), text);
    memcpy(replaced.memory + offset, start.memory + offset, ZG_UNALIGNED_BYTES);
    CHECK(!memcmp(replaced.memory, start.memory, MEMORY_BYTES), text);
    native.registers[it->base] = replaced.registers[it->base];
    CHECK(!memcmp(native.registers, replaced.registers, sizeof native.registers), text);
    CHECK_EQUAL(replaced.flags & 0x8d5, native.flags & 0x8d5, text);
    // Skip xsave's bytes for software, and its fields of the last x87 instruction: this instruction sets neither.
    CHECK(!memcmp(native.vectors, replaced.vectors, 6), text);
    CHECK(!memcmp(native.vectors + 24, replaced.vectors + 24, 416 - 24), text);
    CHECK(!memcmp(native.vectors + HEADER_AT + 64, replaced.vectors + HEADER_AT + 64, STATE_BYTES - HEADER_AT - 64),
          text);
}

static void check_refused(const char *what, const uint8_t *bytes, size_t count) {
    struct zg_unaligned it;
    ucontext_t context = {0};
    uint8_t padded[16] = {0};
    memcpy(padded, bytes, count);
    CHECK(!zg_unaligned_read(&it, padded, 16, &context), what);
}

int main(void) {
    uint32_t low, high;
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigfillset(&action.sa_mask);
    sigaction(SIGSEGV, &action, NULL);
    if (!has("avx")) {
        check_refused("nothing", (const uint8_t *)"\x90", 1);
        return check_end();
    }
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    components = low & 0xe7;
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(zg_unaligned_prepare(), "replacements can be made executable");
    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++)
        for (int opcode = opcodes[i].first; opcode <= opcodes[i].last; opcode++)
            for (int round = 0; round < ROUNDS && has(opcodes[i].needs); round++) {
                int form = opcodes[i].form;
                struct instruction it = make(&opcodes[i], (uint8_t)opcode, LEGACY);
                check(&it, LEGACY);
                if (form & VEX) it = make(&opcodes[i], (uint8_t)opcode, VEX), check(&it, VEX);
                if (form & EVEX && has("avx512vl")) it = make(&opcodes[i], (uint8_t)opcode, EVEX), check(&it, EVEX);
            }
    check_refused("an atomic exchange of 16 bytes", (const uint8_t *)"\xf0\x48\x0f\xc7\x08", 5);
    check_refused("a move of 32 bytes", (const uint8_t *)"\xc5\xfc\x28\x00", 4);
    check_refused("a move of 64 bytes", (const uint8_t *)"\x62\xf1\x7c\x48\x28\x00", 6);
    check_refused("fxsave", (const uint8_t *)"\x0f\xae\x00", 3);
    check_refused("an operand of the thread", (const uint8_t *)"\x64\x0f\x28\x00", 4);
    check_refused("a move between registers", (const uint8_t *)"\x0f\x28\xc1", 3);
    check_refused("a store of a general register", (const uint8_t *)"\x48\x89\x18", 3);
    return check_end();
}
