// Decodes x86-64 instructions: accesses to memory, and the places that indirect calls read their targets from.
// processor: x86_64
// link: runtime

#include <string.h>

#include "check.h"
#include "platform/arch.h"

struct row {
    const char *text;
    const char *bytes; // hexadecimal, two digits a byte
    enum zg_fault_access access;
    bool is_cut;
};

// Encodings by the GNU assembler.
static const struct row rows[] = {
    {"mov (%rax),%rbx", "488b18", zg_fault_read, false},
    {"mov (%rdi),%eax", "8b07", zg_fault_read, false},
    {"mov 8(%r12),%al", "418a442408", zg_fault_read, false},
    {"mov %rbx,(%rax)", "488918", zg_fault_write, false},
    {"mov %al,(%rdi)", "8807", zg_fault_write, false},
    {"mov %ax,(%rdi)", "668907", zg_fault_write, false},
    {"mov %r9,16(%r12,%rcx,8)", "4d894ccc10", zg_fault_write, false},
    {"movl $1,(%rax)", "c70001000000", zg_fault_write, false},
    {"movb $1,(%rax)", "c60001", zg_fault_write, false},
    {"movq $0,8(%rdi)", "48c7470800000000", zg_fault_write, false},
    {"movzbl (%rdi),%eax", "0fb607", zg_fault_read, false},
    {"movswl (%rdi),%eax", "0fbf07", zg_fault_read, false},
    {"movslq (%rdi),%rax", "486307", zg_fault_read, false},
    {"mov %fs:(%rax),%rax", "64488b00", zg_fault_read, false},
    {"mov %rax,%fs:(%rax)", "64488900", zg_fault_write, false},
    {"add (%rax),%rbx", "480318", zg_fault_read, false},
    {"add %rbx,(%rax)", "480118", zg_fault_write, false},
    {"or %al,(%rdi)", "0807", zg_fault_write, false},
    {"sub %eax,(%rdi)", "2907", zg_fault_write, false},
    {"xor %eax,(%rdi)", "3107", zg_fault_write, false},
    {"cmp %rbx,(%rax)", "483918", zg_fault_read, false},
    {"cmp (%rax),%rbx", "483b18", zg_fault_read, false},
    {"cmpl $5,(%rdi)", "833f05", zg_fault_read, false},
    {"cmpb $5,(%rdi)", "803f05", zg_fault_read, false},
    {"cmpq $1000,(%rdi)", "48813fe8030000", zg_fault_read, false},
    {"addl $5,(%rdi)", "830705", zg_fault_write, false},
    {"andl $5,(%rdi)", "832705", zg_fault_write, false},
    {"addq $1000,(%rdi)", "488107e8030000", zg_fault_write, false},
    {"test %rax,(%rdi)", "488507", zg_fault_read, false},
    {"testb $1,(%rdi)", "f60701", zg_fault_read, false},
    {"testl $1,(%rdi)", "f70701000000", zg_fault_read, false},
    {"notl (%rdi)", "f717", zg_fault_write, false},
    {"negq (%rdi)", "48f71f", zg_fault_write, false},
    {"notb (%rdi)", "f617", zg_fault_write, false},
    {"mulq (%rdi)", "48f727", zg_fault_read, false},
    {"idivl (%rdi)", "f73f", zg_fault_read, false},
    {"imul (%rdi),%rax", "480faf07", zg_fault_read, false},
    {"incl (%rdi)", "ff07", zg_fault_write, false},
    {"decq (%rdi)", "48ff0f", zg_fault_write, false},
    {"incb (%rdi)", "fe07", zg_fault_write, false},
    {"lock incl (%rdi)", "f0ff07", zg_fault_write, false},
    {"lock decq (%rdi)", "f048ff0f", zg_fault_write, false},
    {"lock xadd %eax,(%rdi)", "f00fc107", zg_fault_write, false},
    {"lock cmpxchg %rcx,(%rdi)", "f0480fb10f", zg_fault_write, false},
    {"lock cmpxchg16b (%rdi)", "f0480fc70f", zg_fault_write, false},
    {"lock bts %eax,(%rdi)", "f00fab07", zg_fault_write, false},
    {"btr %rax,(%rdi)", "480fb307", zg_fault_write, false},
    {"btc %rax,(%rdi)", "480fbb07", zg_fault_write, false},
    {"bt %rax,(%rdi)", "480fa307", zg_fault_read, false},
    {"btsl $3,(%rdi)", "0fba2f03", zg_fault_write, false},
    {"btl $3,(%rdi)", "0fba2703", zg_fault_read, false},
    {"shld $3,%eax,(%rdi)", "0fa40703", zg_fault_write, false},
    {"xchg %rax,(%rdi)", "488707", zg_fault_write, false},
    {"shll $3,(%rdi)", "c12703", zg_fault_write, false},
    {"shrq %cl,(%rdi)", "48d32f", zg_fault_write, false},
    {"setne (%rdi)", "0f9507", zg_fault_write, false},
    {"cmovne (%rdi),%eax", "0f4507", zg_fault_read, false},
    {"push (%rdi)", "ff37", zg_fault_read, false},
    {"pop (%rdi)", "8f07", zg_fault_write, false},
    {"call *(%rax)", "ff10", zg_fault_execute, false},
    {"call *16(%rax)", "ff5010", zg_fault_execute, false},
    {"call *%rax", "ffd0", zg_fault_execute, false},
    {"jmp *(%rax)", "ff20", zg_fault_execute, false},
    {"jmp *%rcx", "ffe1", zg_fault_execute, false},
    {"notrack jmp *%rax", "3effe0", zg_fault_execute, false},
    {"call *8(%r12)", "41ff542408", zg_fault_execute, false},
    {"ret, and the next function's nop", "c390", zg_fault_execute, false},
    {"ret $8", "c20800", zg_fault_execute, false},
    {"rep stosb", "f3aa", zg_fault_write, false},
    {"rep stosq", "f348ab", zg_fault_write, false},
    {"rep movsb", "f3a4", zg_fault_write, false},
    {"rep movsq", "f348a5", zg_fault_write, false},
    {"repe cmpsb", "f3a6", zg_fault_read, false},
    {"lods", "48ad", zg_fault_read, false},
    {"movups (%rdi),%xmm0", "0f1007", zg_fault_read, false},
    {"movups %xmm0,(%rdi)", "0f1107", zg_fault_write, false},
    {"movaps %xmm0,(%rdi)", "0f2907", zg_fault_write, false},
    {"movaps (%rdi),%xmm0", "0f2807", zg_fault_read, false},
    {"movdqu %xmm0,(%rdi)", "f30f7f07", zg_fault_write, false},
    {"movdqu (%rdi),%xmm0", "f30f6f07", zg_fault_read, false},
    {"movdqa %xmm8,(%rdi)", "66440f7f07", zg_fault_write, false},
    {"movsd %xmm0,(%rdi)", "f20f1107", zg_fault_write, false},
    {"movsd (%rdi),%xmm0", "f20f1007", zg_fault_read, false},
    {"movss %xmm0,(%rdi)", "f30f1107", zg_fault_write, false},
    {"movq %xmm0,(%rdi)", "660fd607", zg_fault_write, false},
    {"movq (%rdi),%xmm0", "f30f7e07", zg_fault_read, false},
    {"movd %xmm0,(%rdi)", "660f7e07", zg_fault_write, false},
    {"movd (%rdi),%xmm0", "660f6e07", zg_fault_read, false},
    {"movhps %xmm0,(%rdi)", "0f1707", zg_fault_write, false},
    {"movlps %xmm0,(%rdi)", "0f1307", zg_fault_write, false},
    {"movntps %xmm0,(%rdi)", "0f2b07", zg_fault_write, false},
    {"movntdq %xmm0,(%rdi)", "660fe707", zg_fault_write, false},
    {"movnti %eax,(%rdi)", "0fc307", zg_fault_write, false},
    {"addsd (%rdi),%xmm0", "f20f5807", zg_fault_read, false},
    {"pcmpeqb (%rdi),%xmm0", "660f7407", zg_fault_read, false},
    {"prefetcht0 (%rdi)", "0f180f", zg_fault_read, false},
    {"pextrq $1,%xmm0,(%rdi)", "66480f3a160701", zg_fault_write, false},
    {"movbe %eax,(%rdi)", "0f38f107", zg_fault_write, false},
    {"movbe (%rdi),%eax", "0f38f007", zg_fault_read, false},
    {"fstpt (%rdi)", "db3f", zg_fault_write, false},
    {"fldt (%rdi)", "db2f", zg_fault_read, false},
    {"fstpl (%rdi)", "dd1f", zg_fault_write, false},
    {"fldl (%rdi)", "dd07", zg_fault_read, false},
    {"fstps (%rdi)", "d91f", zg_fault_write, false},
    {"flds (%rdi)", "d907", zg_fault_read, false},
    {"fistpll (%rdi)", "df3f", zg_fault_write, false},
    {"mov %eax,(%edi), a 32-bit address", "678907", zg_fault_write, false},
    {"mov %ds,(%rdi)", "8c1f", zg_fault_write, false},
    {"mov (%rdi),%ds", "8e1f", zg_fault_read, false},
    {"movabs %al,0x1122334455667788", "a28877665544332211", zg_fault_write, false},
    {"movabs 0x1122334455667788,%eax", "a18877665544332211", zg_fault_read, false},
    {"insb", "6c", zg_fault_write, false},
    {"outsb", "6e", zg_fault_read, false},
    {"movd %mm0,(%rdi)", "0f7e07", zg_fault_write, false},
    {"movd %xmm0,%fs:(%rdi)", "64660f7e07", zg_fault_write, false},
    {"movq %fs:(%rdi),%xmm0", "64f30f7e07", zg_fault_read, false},
    {"fxsave (%rdi)", "0fae07", zg_fault_write, false},
    {"fxrstor (%rdi)", "0fae0f", zg_fault_read, false},
    {"ldmxcsr (%rdi)", "0fae17", zg_fault_read, false},
    {"stmxcsr (%rdi)", "0fae1f", zg_fault_write, false},
    {"xsave (%rdi)", "0fae27", zg_fault_write, false},
    {"xrstor (%rdi)", "0fae2f", zg_fault_read, false},
    {"xsaveopt (%rdi)", "0fae37", zg_fault_write, false},
    {"clwb (%rdi)", "660fae37", zg_fault_read, false},
    {"clflushopt (%rdi)", "660fae3f", zg_fault_read, false},
    {"xsavec (%rdi)", "0fc727", zg_fault_write, false},
    {"maskmovdqu %xmm1,%xmm0", "660ff7c1", zg_fault_write, false},
    {"movdiri %eax,(%rdi)", "0f38f907", zg_fault_write, false},
    {"crc32w (%rdi),%eax", "66f20f38f107", zg_fault_read, false},
    {"vmovdqu %ymm0,(%rdi), not decoded", "c5fe7f07", zg_fault_unknown, false},
    {"nothing", "", zg_fault_unknown, true},
    {"a prefix alone", "66", zg_fault_unknown, true},
    {"a REX prefix alone", "48", zg_fault_unknown, true},
    {"cut after the opcode", "4889", zg_fault_unknown, true},
    {"cut after an opcode of two bytes", "0fab", zg_fault_unknown, true},
    {"cut after an opcode of three bytes", "0f38f1", zg_fault_unknown, true},
    {"ret, at the end of a page", "c3", zg_fault_execute, true},
    {"rep movsb, at the end of a page", "f3a4", zg_fault_write, true},
};

static int from_hex(const char *text, uint8_t *bytes) {
    int count = 0;
    for (; text[0] && text[1]; text += 2) {
        unsigned value;
        sscanf(text, "%2x", &value);
        bytes[count++] = (uint8_t)value;
    }
    return count;
}

// Register values that identify their register: DWARF number times 0x10000, plus 0x100000000.
static uint64_t value_of(int dwarf) { return 0x100000000u + (uint64_t)dwarf * 0x10000u; }
enum { RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP, R8, R9, R10, R11, R12, R13, R14, R15 };

struct place_row {
    const char *text, *bytes;
    bool found;
    int base, index, scale; // `index` and `base`: -1 if absent
    int64_t distance;
};

static const struct place_row places[] = {
    {"call *(%rax)", "ff10", true, RAX, -1, 0, 0},
    {"call *(%rcx)", "ff11", true, RCX, -1, 0, 0},
    {"call *(%rdx)", "ff12", true, RDX, -1, 0, 0},
    {"call *(%rbx)", "ff13", true, RBX, -1, 0, 0},
    {"call *(%rsi)", "ff16", true, RSI, -1, 0, 0},
    {"call *(%rdi)", "ff17", true, RDI, -1, 0, 0},
    {"call *(%rsp)", "ff1424", true, RSP, -1, 0, 0},
    {"call *0(%rbp)", "ff5500", true, RBP, -1, 0, 0},
    {"call *(%r8)", "41ff10", true, R8, -1, 0, 0},
    {"call *(%r11)", "41ff13", true, R11, -1, 0, 0},
    {"call *(%r12)", "41ff1424", true, R12, -1, 0, 0},
    {"call *0(%r13)", "41ff5500", true, R13, -1, 0, 0},
    {"call *(%r15)", "41ff17", true, R15, -1, 0, 0},
    {"call *16(%rax)", "ff5010", true, RAX, -1, 0, 16},
    {"call *-8(%rax)", "ff50f8", true, RAX, -1, 0, -8},
    {"call *0x1000(%rdi)", "ff9700100000", true, RDI, -1, 0, 0x1000},
    {"call *-0x1000(%rdi)", "ff9700f0ffff", true, RDI, -1, 0, -0x1000},
    {"call *8(%rsp)", "ff542408", true, RSP, -1, 0, 8},
    {"call *0x200(%rsp)", "ff942400020000", true, RSP, -1, 0, 0x200},
    {"call *(%rax,%rcx,8)", "ff14c8", true, RAX, RCX, 3, 0},
    {"call *(%r12,%r12,1)", "43ff1424", true, R12, R12, 0, 0},
    {"call *(%r8,%r9,4)", "43ff1488", true, R8, R9, 2, 0},
    {"call *24(%rbp,%rsi,2)", "ff547518", true, RBP, RSI, 1, 24},
    {"call *0x10(,%rcx,8)", "ff14cd10000000", true, -1, RCX, 3, 16},
    {"call *0x2000", "ff142500200000", true, -1, -1, 0, 0x2000},
    {"call *0(%r13,%rax,1)", "41ff540500", true, R13, RAX, 0, 0},
    {"jmp *(%rax)", "ff20", true, RAX, -1, 0, 0},
    {"jmp *32(%r14)", "41ff6620", true, R14, -1, 0, 32},
    {"notrack call *(%rax)", "3eff10", true, RAX, -1, 0, 0},
    {"bnd jmp *(%rax)", "f2ff20", true, RAX, -1, 0, 0},
    {"rex.W call *16(%rdx)", "48ff5210", true, RDX, -1, 0, 16},
    {"call *%rax", "ffd0", false, 0, 0, 0, 0},
    {"jmp *%r11", "41ffe3", false, 0, 0, 0, 0},
    {"call *0x10(%rip)", "ff1510000000", false, 0, 0, 0, 0},
    {"call near", "e800000000", false, 0, 0, 0, 0},
    {"push (%rax)", "ff30", false, 0, 0, 0, 0},
    {"incl (%rax)", "ff00", false, 0, 0, 0, 0},
    {"lcall *(%rax)", "ff18", false, 0, 0, 0, 0},
    {"mov (%rax),%rax", "488b00", false, 0, 0, 0, 0},
    {"ret", "c3", false, 0, 0, 0, 0},
    {"nothing", "", false, 0, 0, 0, 0},
    {"cut before ModRM", "ff", false, 0, 0, 0, 0},
    {"cut before SIB", "ff14", false, 0, 0, 0, 0},
    {"cut in the displacement", "ff97001000", false, 0, 0, 0, 0},
    {"cut before a short displacement", "ff50", false, 0, 0, 0, 0},
};

static const struct {
    const char *text, *bytes;
    bool may;
} loads[] = {
    {"mov (%rdi),%rax", "488b07", true},
    {"mov 8(%r13),%r9", "4d8b4d08", true},
    {"mov %fs:(%rax),%rcx", "64488b08", true},
    {"pushq (%rdi)", "ff37", false},
    {"mov (%rdi),%eax", "8b07", false},
    {"mov (%r8),%eax", "418b00", false},
    {"mov (%rdi),%ax", "668b07", false},
    {"mov (%rdi),%al", "8a07", false},
    {"movzbl (%rdi),%eax", "0fb607", false},
    {"mov %rax,(%rdi)", "488907", false},
    {"movq $5,(%rdi)", "48c70705000000", false},
    {"cmp %rax,(%rbx)", "483903", false},
    {"cmp (%rbx),%rax", "483b03", false},
    {"test %rax,(%rdi)", "488507", false},
    {"xor (%rdi),%rax", "483307", false},
    {"lock incq (%rdi)", "f048ff07", false},
    {"movdqu (%rdi),%xmm0", "f30f6f07", false},
    {"vmovdqu (%rdi),%ymm0", "c5fe6f07", false},
    {"rep movsb", "f3a4", false},
    {"nothing", "", true},
    {"cut before the opcode", "48", true},
};

struct operand_row {
    const char *text, *bytes;
    int first, second; // registers in the order index, base; -1 if absent
};

static const struct operand_row operands[] = {
    {"mov (%rdi),%rax", "488b07", RDI, -1},
    {"mov 8(%r13),%rax", "498b4508", R13, -1},
    {"mov (%rax,%rcx,8),%rdx", "488b14c8", RCX, RAX},
    {"mov 0x10(,%rcx,8),%rdx", "488b14cd10000000", RCX, -1},
    {"movzbl (%rsi),%eax", "0fb606", RSI, -1},
    {"movdqu (%r8,%r9,4),%xmm0", "f3430f6f0488", R9, R8},
    {"pshufb (%rbx),%xmm0", "660f380003", RBX, -1},
    {"vmovdqu (%rdi),%ymm0", "c5fe6f07", RDI, -1},
    {"vmovdqu (%r9,%r10,1),%ymm0", "c4817e6f0411", R10, R9},
    {"vmovdqu64 (%rdx),%zmm0", "62f1fe486f02", RDX, -1},
    {"lock incl (%rbx)", "f0ff03", RBX, -1},
    {"mov %fs:(%rax),%rcx", "64488b08", RAX, -1},
    {"call *%rax", "ffd0", RAX, -1},
    {"jmp *%r11", "41ffe3", R11, -1},
    {"mov %rax,%rcx", "4889c1", -1, -1},
    {"mov 0x10(%rip),%rax", "488b0510000000", -1, -1},
    {"ret", "c3", -1, -1},
    {"push %rax", "50", -1, -1},
    {"rep movsb", "f3a4", -1, -1},
    {"ud0 (%rax)", "0fff10", RAX, -1},
    {"cut before ModRM", "488b", -1, -1},
    {"cut in the displacement", "488b87001000", -1, -1},
    {"nothing", "", -1, -1},
};

int main(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t bytes[32];
        memset(bytes, 0x90, sizeof bytes);
        int count = from_hex(rows[i].bytes, bytes);
        // The decoder gets sixteen bytes, unless the page ends earlier, which the last rows test.
        CHECK_EQUAL(zg_arch_decode_access(bytes, rows[i].is_cut ? count : 16), rows[i].access, rows[i].text);
    }
    struct zg_registers registers = {.known = ~UINT64_C(0)};
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) registers.value[i] = value_of(i);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const struct place_row *row = &places[i];
        uint8_t bytes[32];
        memset(bytes, 0x90, sizeof bytes);
        int count = from_hex(row->bytes, bytes);
        uint64_t place = 0, wanted = (uint64_t)row->distance;
        if (row->base >= 0) wanted += value_of(row->base);
        if (row->index >= 0) wanted += value_of(row->index) << row->scale;
        bool found = zg_arch_call_target_place(bytes, count, &registers, &place);
        if (CHECK_EQUAL(found, row->found, row->text) && found) CHECK_EQUAL(place, wanted, row->text);
    }
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        const struct operand_row *row = &operands[i];
        uint8_t bytes[32];
        uint64_t values[2] = {0, 0};
        int count = from_hex(row->bytes, bytes), wanted = (row->first >= 0) + (row->second >= 0);
        CHECK_EQUAL(zg_arch_operand_registers(bytes, count, &registers, values), wanted, row->text);
        if (row->first >= 0) CHECK_EQUAL(values[0], value_of(row->first), row->text);
        if (row->second >= 0) CHECK_EQUAL(values[1], value_of(row->second), row->text);
    }
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        uint8_t bytes[32];
        int count = from_hex(loads[i].bytes, bytes);
        CHECK_EQUAL(zg_arch_may_load_pointer(bytes, count), loads[i].may, loads[i].text);
    }
    // Random bytes: any result is correct, but the functions must not read beyond `count`.
    uint64_t state = 99;
    for (int i = 0; i < 200000; i++) {
        int count = (int)(work_random(&state) % 16);
        uint8_t *bytes = malloc((size_t)count + 1);
        uint64_t place;
        for (int j = 0; j < count; j++) bytes[j] = (uint8_t)work_random(&state);
        if (i % 2 && count) bytes[0] = 0xff;
        zg_arch_decode_access(bytes, count);
        zg_arch_may_load_pointer(bytes, count);
        zg_arch_call_target_place(bytes, count, &registers, &place);
        uint64_t values[2];
        zg_arch_operand_registers(bytes, count, &registers, values);
        free(bytes);
    }
    CHECK(zg_arch_is_canonical(0) && zg_arch_is_canonical(0x7fffffffffff), "lower half is canonical");
    CHECK(zg_arch_is_canonical(0xffff800000000000), "upper half is canonical");
    CHECK(!zg_arch_is_canonical(0x800000000000) && !zg_arch_is_canonical(0x5555555555555555), "the hole is not");
    registers.value[RSP] = 0x1000;
    registers.pc = 0x5555;
    CHECK(zg_arch_undo_call(&registers, 0x401000) && registers.pc == 0x401000 && registers.value[RSP] == 0x1008,
          "a call is undone");
    CHECK(!zg_arch_undo_call(&registers, 0x5555555555555555) && registers.pc == 0x401000,
          "not to a place that cannot be");
    CHECK(!zg_arch_undo_call(&registers, 5), "nor to the first page");
    return check_end();
}
