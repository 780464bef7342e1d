// Detours on arm64: a function's first instructions move and work as before; those that cannot move are left alone.
// processor: aarch64
// link: runtime

#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "platform/arch.h"

struct row {
    const char *text;
    uint32_t words[8]; // words of the function; the rest is "ret"
    uint64_t result;   // result of the call f(41, 7), if `is_moved`
    bool is_moved;
};

// Words as clang's assembler writes them, of functions f(x0, x1).
// clang-format off
static const struct row rows[] = {
    {"stp x29,x30,[sp,#-16]!; add x0,x0,#1; ldp x29,x30,[sp],#16", {0xa9bf7bfd, 0x91000400, 0xa8c17bfd}, 42, true},
    {"bti c; add x0,x0,#1", {0xd503245f, 0x91000400}, 42, true},
    {"bti c; stp x29,x30,[sp,#-16]!; mov x29,sp; add x0,x0,x1; ldp x29,x30,[sp],#16", {0xd503245f, 0xa9bf7bfd, 0x910003fd, 0x8b010000, 0xa8c17bfd}, 48, true},
    {"paciasp; stp x29,x30,[sp,#-16]!; add x0,x0,#1; ldp x29,x30,[sp],#16; autiasp", {0xd503233f, 0xa9bf7bfd, 0x91000400, 0xa8c17bfd, 0xd50323bf}, 42, true},
    {"pacibsp; sub sp,sp,#16; str x0,[sp]; ldr x0,[sp]; add sp,sp,#16; autibsp", {0xd503237f, 0xd10043ff, 0xf90003e0, 0xf94003e0, 0x910043ff, 0xd50323ff}, 41, true},
    {"sub sp,sp,#32; add x0,x0,x1; add sp,sp,#32", {0xd10083ff, 0x8b010000, 0x910083ff}, 48, true},
    {"mov x8,#7; add x0,x0,x8", {0xd28000e8, 0x8b080000}, 48, true},
    {"cmp x0,#1; cset w0,gt", {0xf100041f, 0x1a9fd7e0}, 1, true},
    {"str x0,[sp,#-16]!; ldr x0,[sp],#16", {0xf81f0fe0, 0xf84107e0}, 41, true},
    {"adr x8,.+16; ldr w0,[x8]; b .+12; nop; .inst 0x1234; nop", {0x10000088, 0xb9400100, 0x14000003, 0xd503201f, 0x00001234, 0xd503201f}, 0x1234, true},
    {"adrp x8,.+0; and x0,x8,#0xfff", {0x90000008, 0x92402d00}, 0, true},
    {"ldr x8,.+12; add x0,x0,x8; b .+12; .inst 5; .inst 1", {0x58000068, 0x8b080000, 0x14000003, 0x00000005, 0x00000001}, 0x10000002e, true},
    {"ldr w0,.+8; b .+8; .inst 77", {0x18000040, 0x14000002, 0x0000004d}, 77, true},
    {"cbz x0,.+12; add x0,x0,#1; b .+8; mov x0,#0", {0xb4000060, 0x91000400, 0x14000002, 0xd2800000}, 42, true},
    {"cbnz x0,.+12; add x0,x0,#1; b .+8; mov x0,#9", {0xb5000060, 0x91000400, 0x14000002, 0xd2800120}, 9, true},
    {"tbz w0,#0,.+12; add x0,x0,#2; b .+8; mov x0,#9", {0x36000060, 0x91000800, 0x14000002, 0xd2800120}, 43, true},
    {"tbnz x1,#2,.+12; add x0,x0,#2; b .+8; mov x0,#8", {0x37100061, 0x91000800, 0x14000002, 0xd2800100}, 8, true},
    {"bti c; cbz x1,.+12; add x0,x0,#3; b .+8; mov x0,#8", {0xd503245f, 0xb4000061, 0x91000c00, 0x14000002, 0xd2800100}, 44, true},
    {"b .+8; nop; add x0,x0,#4", {0x14000002, 0xd503201f, 0x91001000}, 45, true},
    {"mov x9,x18; mov x0,x1", {0xaa1203e9, 0xaa0103e0}, 7, true},
    {"fmov d0,x0; fmov x0,d0", {0x9e670000, 0x9e660000}, 41, true},
    {"mrs x8,tpidr_el0; mov x0,x1", {0xd53bd048, 0xaa0103e0}, 7, true},
    {"ldr x8,[x0]; nop", {0xf9400008, 0xd503201f}, 0, false},
    {"str x1,[x0]; nop", {0xf9000001, 0xd503201f}, 0, false},
    {"ldp x8,x9,[x0,#16]; nop", {0xa9412408, 0xd503201f}, 0, false},
    {"ldr x8,[sp,x1]; nop", {0xf8616be8, 0xd503201f}, 0, false},
    {"ldxr x8,[x0]; nop", {0xc85f7c08, 0xd503201f}, 0, false},
    {"bl .+8; nop", {0x94000002, 0xd503201f}, 0, false},
    {"br x30", {0xd61f03c0}, 0, false},
    {"ret", {0xd65f03c0}, 0, false},
    {"brk #1", {0xd4200020}, 0, false},
    {"svc #0", {0xd4000001}, 0, false},
    {"ldr q0,.+16; nop; nop; nop", {0x9c000080, 0xd503201f, 0xd503201f, 0xd503201f}, 0, false},
    {"prfm pldl1keep,[x0]; nop", {0xf9800000, 0xd503201f}, 0, false},
    {"paciasp; add x0,x0,#1; sub x1,x1,#1; cbnz x1,.-8; autiasp", {0xd503233f, 0x91000400, 0xd1000421, 0xb5ffffc1, 0xd50323bf}, 0, false},
};
// clang-format on

enum { CODE_AT = 64, CODE_BYTES = 256 };

static uint64_t seen_argument, seen_number, seen_caller, seen_frame[2], called_at;
static int seen, moved_far;

static __attribute__((noinline)) void observe(uint64_t argument, uint64_t number, const uint64_t *frame) {
    seen++;
    seen_argument = argument;
    seen_number = number;
    seen_caller = frame[1];
    seen_frame[0] = zg_arch_caller_sp(frame);
    seen_frame[1] = *zg_arch_return_word(frame);
    // Overwrites the registers that a callee may change: the detour has to preserve them.
    __asm__ volatile("mov x0, #1\n mov x1, #2\n mov x2, #3\n mov x7, #4\n mov x8, #5\n mov x9, #6\n mov x15, #7\n"
                     "mov x16, #8\n mov x17, #9\n mov x18, #10\n" ::
                         : "x0", "x1", "x2", "x7", "x8", "x9", "x15", "x16", "x17", "x18", "memory");
}

// Calls the function with 41 and 7, and stores the stack pointer in `called_at`.
static __attribute__((noinline)) uint64_t call_there(uint64_t function) {
    register uint64_t x0 __asm__("x0") = 41, x1 __asm__("x1") = 7, x9 __asm__("x9") = function;
    __asm__ volatile("mov x10, sp\n str x10, [%3]\n blr x9\n"
                     : "+r"(x0), "+r"(x1), "+r"(x9)
                     : "r"(&called_at)
                     : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
                       "x18", "x30", "v0", "cc", "memory");
    return x0;
}

static void try_row(const struct row *row, uint8_t *page, uint8_t *room, bool is_far) {
    uint32_t ret = 0xd65f03c0;
    uint8_t *code = page + CODE_AT;
    uint64_t function = (uint64_t)code;
    for (size_t i = 0; i < 4096; i += 4) memcpy(page + i, &ret, sizeof ret);
    memset(room, 0xcc, ZG_ARCH_DETOUR_ROOM + 16);
    for (int i = 0; i < 8; i++)
        if (row->words[i]) memcpy(code + 4 * i, &row->words[i], 4);
    uint32_t written = zg_arch_detour_write(room, function, code, CODE_BYTES, observe, 5);
    bool may_not = is_far && row->is_moved; // a far detour may be impossible in a function of three instructions
    if (!CHECK(row->is_moved == (written != 0) || may_not, row->text) || !written) return;
    moved_far += is_far;
    CHECK(written <= ZG_ARCH_DETOUR_ROOM && room[ZG_ARCH_DETOUR_ROOM] == 0xcc, row->text);
    uint8_t jump[16];
    memcpy(jump, code, sizeof jump);
    uint32_t count = zg_arch_detour_jump(jump, function, (uint64_t)room);
    CHECK(is_far ? count == 12 || count == 16 : count == 4 || count == 8, row->text);
    memcpy(code, jump, count);
    // The function still begins with a landing pad (BTI) if it did before.
    uint32_t first;
    memcpy(&first, code, sizeof first);
    bool had_pad = row->words[0] == 0xd503245f || row->words[0] == 0xd503233f || row->words[0] == 0xd503237f;
    CHECK_EQUAL(first == 0xd503245f, had_pad, row->text);
    __builtin___clear_cache((char *)page, (char *)page + 4096);
    __builtin___clear_cache((char *)room, (char *)room + 4096);
    seen = 0;
    uint64_t result = call_there(function);
    CHECK_EQUAL(result, row->result, row->text);
    CHECK_EQUAL(seen, 1, row->text);
    CHECK_EQUAL(seen_argument, 41, row->text);
    CHECK_EQUAL(seen_number, 5, row->text);
    CHECK(seen_caller - (uint64_t)call_there < 512, row->text);
    CHECK_EQUAL(seen_frame[0], called_at, row->text);
    CHECK_EQUAL(seen_frame[1], seen_caller, row->text);
}

int main(void) {
    uint8_t *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED, "pages for code");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) try_row(&rows[i], pages, pages + 2 * 4096, false);
    // Place the detour out of a direct branch's range, below and above.
    for (int side = -1; side <= 1; side += 2) {
        uint8_t *there = (uint8_t *)((uint64_t)pages + (uint64_t)side * 0x20001000);
        uint8_t *room = mmap(there, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int64_t distance = room - pages;
        if (room == MAP_FAILED || distance > INT64_C(1) << 30 || distance < -(INT64_C(1) << 30)) continue;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) try_row(&rows[i], pages, room, true);
        CHECK(moved_far >= 5, "functions are moved far away");
    }
    CHECK(moved_far, "there is room far away");
    // The function is too far away for a branch.
    uint32_t code[16] = {0xa9bf7bfd, 0x910003fd, 0xa8c17bfd, 0xd65f03c0};
    _Alignas(8) uint8_t room[ZG_ARCH_DETOUR_ROOM];
    CHECK_EQUAL(zg_arch_detour_jump((uint8_t *)code, 0x10000, UINT64_C(0x8000000)), 4, "a branch");
    CHECK_EQUAL(zg_arch_detour_jump((uint8_t *)code, 0x10000, UINT64_C(0x8010000)), 12, "a branch through a register");
    CHECK_EQUAL(zg_arch_detour_jump((uint8_t *)code, 0x10000, UINT64_C(0x200000000)), 0, "a branch that is too long");
    code[0] = 0xa9bf7bfd;
    CHECK_EQUAL(zg_arch_detour_write(room, 0x10000, (uint8_t *)code, sizeof code, observe, 1), 0,
                "a way back that is too long");
    CHECK_EQUAL(zg_arch_detour_write(pages, (uint64_t)pages + 4096, (uint8_t *)code, 8, observe, 1), 0,
                "too little of it is known");
    return check_end();
}
