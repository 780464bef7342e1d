// Tests the lookahead emulator on arm64: calls, reads and writes after a retain, and code without a known use.
// processor: aarch64
// link: runtime

enum { ARGUMENT = 1 }; // x1

#include "lookahead.h"

// At the start of each sequence, x19, x20 (self) and x0 (result of the retain) hold the object; x29 and sp point to the
// stack.
__asm__(
    ".text\n .arch armv8.3-a\n .balign 4096\n"
    "method: ldr x0, [x20, #32]\n ret\n"
    "thunk: b method\n"
    "saves_x20: stp x20, x19, [sp, #-16]!\n mov x20, #5\n ldp x20, x19, [sp], #16\n ret\n"
    "saves_in_frame: stp x29, x30, [sp, #-32]!\n str x20, [sp, #16]\n mov x29, sp\n mov x20, #5\n ldr x20, [sp, #16]\n"
    "  ldp x29, x30, [sp], #32\n ret\n"
    "keeps_x20: sub sp, sp, #48\n stp x29, x30, [sp, #32]\n add x29, sp, #32\n str x20, [sp, #8]\n ldr x8, [sp, #8]\n"
    "  ldr x0, [x8, #24]\n ldp x29, x30, [sp, #32]\n add sp, sp, #48\n ret\n"
    "signed_method: paciasp\n stp x29, x30, [sp, #-16]!\n ldr x0, [x20, #32]\n ldp x29, x30, [sp], #16\n retaa\n"
    "unknown_value: mrs x0, tpidr_el0\n ldr x0, [x0]\n ret\n"
    "takes_object: ldr x0, [x0, #24]\n ret\n"
    "code_virtual: ldr x8, [x20]\n ldr x8, [x8, #24]\n blr x8\n ret\n"
    "code_load: ldr x8, [x1]\n mov x20, x1\n ldr x8, [x8, #24]\n blr x8\n ret\n"
    "code_thunk: bl thunk\n ret\n"
    "code_read: mov x1, x19\n ldr x1, [x1, #16]\n ret\n"
    "code_write: str xzr, [x19, #24]\n ret\n"
    "code_read_pair: ldp x1, x2, [x19, #24]\n ret\n"
    "code_written_pair: stp x1, x2, [x19, #16]\n ret\n"
    "code_atomic: mov x1, #1\n add x2, x19, #40\n .arch_extension lse\n ldaddal x1, x1, [x2]\n ret\n"
    "code_vector: ldr q0, [x19, #16]\n ret\n"
    "code_indexed: mov w2, #2\n add x1, x19, #8\n ldr x1, [x1, w2, uxtw #3]\n ret\n"
    "code_spilled: str x19, [sp, #8]\n mov x19, #0\n ldr x1, [sp, #8]\n ldr x0, [x1, #40]\n ret\n"
    "code_pair: stp x19, xzr, [sp]\n ldr q1, [sp]\n str q1, [sp, #16]\n ldp x1, x2, [sp, #16]\n ldr w0, [x1, #40]\n ret\n"
    "code_in_vector: fmov d0, x19\n mov v1.16b, v0.16b\n mov x1, v1.d[0]\n ldr x0, [x1, #16]\n ret\n"
    "code_passed_over: bl saves_x20\n bl method\n ret\n"
    "code_passed_frame: bl saves_in_frame\n bl method\n ret\n"
    "code_kept: bl keeps_x20\n ret\n"
    "code_signed: bl signed_method\n ret\n"
    "code_argument: mov x20, #0\n mov x0, x19\n bl takes_object\n ret\n"
    "code_handed_on: mov x20, #0\n bl takes_object\n ret\n"
    "code_handed_on_by_method: bl takes_object\n ret\n"
    "takes_nothing: mov x0, #5\n ret\n"
    "code_left: mov x20, #0\n bl takes_nothing\n ldr x0, [x19, #16]\n ret\n"
    "code_left_behind: mov x20, #0\n bl leaves_alone\n bl takes_nothing\n ldr x0, [x19, #40]\n ret\n"
    "leaves_alone: ret\n"
    "spills: sub sp, sp, #16\n str x0, [sp, #8]\n mov x0, #0\n ldr x1, [sp, #8]\n ldr x1, [x1, #32]\n add sp, sp, #16\n ret\n"
    "code_spilling: mov x20, #0\n bl spills\n ret\n"
    "code_place: add x0, x19, #16\n mov w2, #0x21\n bl unknown_value\n ret\n"
    "code_offset: ldr x8, [x19]\n ldr x8, [x8, #8]\n ldr x1, [x19, x8]\n ret\n"
    "code_counted: mov x8, #0x200000000\n add x9, x19, #8\n ldr x0, [x9]\n 2: add x2, x0, x8\n"
    "  ldaxr x3, [x9]\n cmp x3, x0\n b.ne 1f\n stlxr w4, x2, [x9]\n cbnz w4, 2b\n ldr x0, [x9]\n subs x0, x0, x8\n"
    "  b.mi 1f\n str x0, [x9]\n ldr x0, [x19, #24]\n ret\n 1: ldr x0, [x19, #16]\n ret\n"
    "code_released: mov x8, #0x200000000\n ldr x0, [x19, #8]\n sub x0, x0, x8\n str x0, [x19, #8]\n"
    "  ldr x0, [x19, #24]\n ret\n"
    "code_released_twice: mov x8, #0x400000000\n ldr x0, [x19, #8]\n sub x0, x0, x8\n str x0, [x19, #8]\n"
    "  ldr x0, [x19, #24]\n ret\n"
    "loads_self: ldr x20, [x20]\n b method\n"
    "code_boxed: str x19, [sp, #8]\n add x20, sp, #8\n bl loads_self\n ret\n"
    "code_same: bl unknown_value\n cbz x0, 1f\n nop\n 1: ldr x0, [x19, #16]\n ret\n"
    "code_differs: bl unknown_value\n tbz x0, #3, 1f\n ldr x0, [x19, #24]\n ret\n 1: ldr x0, [x19, #16]\n ret\n"
    "code_trap: bl unknown_value\n tbnz w0, #0, 1f\n ldr x0, [x19, #16]\n ret\n 1: brk #1\n"
    "code_known: cbnz x19, 1f\n ldr x0, [x19, #24]\n 1: ldr x0, [x19, #16]\n ret\n"
    "code_bits: bl unknown_value\n orr x0, x0, #4\n and x0, x0, #6\n cmp x0, #0\n b.ne 1f\n ldr x0, [x19, #24]\n"
    "  1: ldr x0, [x19, #16]\n ret\n"
    "code_far: mov x20, #0\n b after\n"
    "after: adrp x1, class_words\n add x1, x1, :lo12:class_words\n ldr x1, [x1, #8]\n ldr x0, [x19, x1]\n ret\n"
    "code_switch: mov x20, #0\n adr x0, resumed\n mov x22, x19\n b stub\n"
    "stub: adrp x16, slot\n ldr x17, [x16, :lo12:slot]\n add x16, x16, :lo12:slot\n br x17\n"
    "resumed: ldr x0, [x22, #24]\n ret\n"
    "code_retained: mov x0, x19\n bl stub_retain\n ldr x1, [x0, #40]\n ret\n"
    "stub_retain: adrp x16, slot_retain\n ldr x17, [x16, :lo12:slot_retain]\n add x16, x16, :lo12:slot_retain\n br x17\n"
    "code_endless: mov x20, #0\n 1: nop\n b 1b\n"
    "code_scalable: .inst 0xa540a260\n ret\n" // ld1w { z0.s }, p0/z, [x19]
    "code_elsewhere: mov w0, #1\n ret\n"
    ".data\n .balign 8\n slot: .quad stub\n slot_retain: .quad stub_retain\n class_words: .quad 0, 40, 0, 0\n .text\n");

extern const char code_virtual[], code_thunk[], code_read[], code_write[], code_read_pair[], code_written_pair[],
    code_atomic[], code_vector[], code_indexed[], code_spilled[], code_pair[], code_in_vector[], code_passed_over[],
    code_passed_frame[], code_kept[], code_signed[], code_argument[], code_handed_on[], code_handed_on_by_method[],
    code_left[], code_left_behind[], code_spilling[], code_place[], code_offset[], code_counted[], code_released[],
    code_released_twice[], code_boxed[], loads_self[], code_same[], code_differs[], code_trap[], code_known[],
    code_bits[], code_far[], code_switch[], code_retained[], code_endless[], code_scalable[], code_elsewhere[], thunk[],
    keeps_x20[], signed_method[], slot[], slot_retain[], class_words[];

static const struct row rows[] = {
    {"a virtual call", code_virtual, CALL, method, 32, false, false},
    {"a call of a thunk", code_thunk, CALL, thunk, CALL, false, false},
    {"a read", code_read, 16, NULL, NONE, false, false},
    {"a write", code_write, 24, NULL, NONE, true, false},
    {"two reads", code_read_pair, 24, NULL, NONE, false, false},
    {"two writes", code_written_pair, 16, NULL, NONE, true, false},
    {"an atomic sum", code_atomic, 40, NULL, NONE, false, false},
    {"a vector", code_vector, 16, NULL, NONE, false, false},
    {"an index", code_indexed, 24, NULL, NONE, false, false},
    {"a reference on the stack", code_spilled, 40, NULL, NONE, false, false},
    {"a reference in a vector of two", code_pair, 40, NULL, NONE, false, false},
    {"a reference in a vector", code_in_vector, 16, NULL, NONE, false, false},
    {"a call that leaves x20 alone", code_passed_over, CALL, method, 32, false, true},
    {"a call that saves x20 in its frame", code_passed_frame, CALL, method, 32, false, true},
    {"a call that keeps x20 on the stack", code_kept, CALL, keeps_x20, 24, false, false},
    {"a signed return address", code_signed, CALL, signed_method, 32, false, false},
    {"an argument", code_argument, 24, NULL, NONE, false, false},
    {"a result handed on", code_handed_on, 24, NULL, NONE, false, false},
    {"a result handed on, and self beside it", code_handed_on_by_method, 24, NULL, NONE, false, false},
    {"a result that nobody takes", code_left, 16, NULL, NONE, false, true},
    {"a result that two calls leave alone", code_left_behind, 40, NULL, NONE, false, true},
    {"a result that is kept on the stack", code_spilling, 32, NULL, NONE, false, false},
    {"the place of a property", code_place, 16, NULL, NONE, true, false},
    {"an offset in the metadata", code_offset, 40, NULL, NONE, false, false},
    {"retained and released", code_counted, 24, NULL, NONE, false, false},
    {"released", code_released, 24, NULL, NONE, false, false},
    {"released twice", code_released_twice, NONE, NULL, NONE, false, false},
    {"the address of the reference as self", code_boxed, CALL, loads_self, CALL, false, false},
    {"a branch that does not matter", code_same, 16, NULL, NONE, false, true},
    {"a branch that matters", code_differs, NONE, NULL, NONE, false, false},
    {"a trap", code_trap, 16, NULL, NONE, false, true},
    {"a known branch", code_known, 16, NULL, NONE, false, false},
    {"a branch by known bits", code_bits, 16, NULL, NONE, false, true},
    {"a jump, and words of the image", code_far, 40, NULL, NONE, false, false},
    {"a task that is switched", code_switch, 24, NULL, NONE, false, false},
    {"a retain of another image", code_retained, 40, NULL, NONE, false, false},
    {"an endless loop", code_endless, NONE, NULL, NONE, false, false},
    {"a scalable vector", code_scalable, NONE, NULL, NONE, false, false},
    {"nothing", code_elsewhere, NONE, NULL, NONE, false, false},
};

static bool is_of_test(uint64_t from, uint64_t bytes) {
    return lies_in(from, bytes, method, 4096) || lies_in(from, bytes, slot, 48);
}

static const char *called_through(uint64_t pc, uint64_t place) {
    (void)pc;
    return place == (uint64_t)slot ? "swift_task_switch" : place == (uint64_t)slot_retain ? "swift_retain" : NULL;
}

static void fill_registers(struct zg_registers *registers) {
    registers->value[19] = registers->value[20] = (uint64_t)object;
    registers->value[29] = (uint64_t)&stack[40];
    registers->value[31] = (uint64_t)&stack[32];
    registers->known = UINT64_C(1) << 19 | UINT64_C(1) << 20 | UINT64_C(1) << 29 | UINT64_C(1) << 31;
}

int main(void) { return check_lookahead(rows, sizeof rows / sizeof *rows); }
