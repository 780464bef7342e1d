// Tests the lookahead emulator: calls, reads and writes of an object after a retain, and code without a known use.
// processor: x86_64
// link: runtime

enum { ARGUMENT = 5 }; // DWARF number of rdi

#include "lookahead.h"

// At the start of each sequence, rbx, r13 (self) and rax (result of the retain) hold the object; rbp and rsp point to
// the stack.
__asm__(
    ".text\n"
    "method: mov 32(%r13), %rax\n ret\n"
    "thunk: jmp method\n"
    "saves_r13: push %r13\n mov $5, %r13d\n pop %r13\n ret\n"
    "unknown_value: mov %fs:0, %rax\n ret\n"
    "takes_object: mov 24(%rdi), %rax\n ret\n"
    "code_virtual: mov (%r13), %rax\n call *24(%rax)\n ret\n"
    "code_load: mov (%rdi), %rax\n mov %rdi, %r13\n call *24(%rax)\n ret\n"
    "code_thunk: call thunk\n ret\n"
    "code_read: mov %rbx, %rcx\n mov 16(%rcx), %rcx\n ret\n"
    "code_write: movq $0, 24(%rbx)\n ret\n"
    "code_vector: movups 16(%rbx), %xmm0\n ret\n"
    "code_spilled: mov %rbx, -24(%rbp)\n xor %ebx, %ebx\n mov -24(%rbp), %rcx\n movq 40(%rcx), %rax\n ret\n"
    "code_pair: mov %rbx, -16(%rbp)\n movups -16(%rbp), %xmm1\n movups %xmm1, -48(%rbp)\n mov -48(%rbp), %rcx\n"
    "  mov 40(%rcx), %eax\n ret\n"
    "code_passed_over: call saves_r13\n call method\n ret\n"
    "code_argument: xor %r13d, %r13d\n mov %rbx, %rdi\n call takes_object\n ret\n"
    "code_place: lea 16(%rbx), %rdi\n mov $0x21, %edx\n call unknown_value\n ret\n"
    "code_offset: mov (%rbx), %rax\n mov 8(%rax), %rax\n mov (%rbx,%rax), %rcx\n ret\n"
    "code_counted: mov $0x200000000, %rcx\n lock addq $0, 8(%rbx)\n mov 8(%rbx), %rax\n lea (%rax,%rcx), %rdx\n"
    "  lock cmpxchg %rdx, 8(%rbx)\n jne 1f\n mov 8(%rbx), %rax\n sub %rcx, %rax\n mov %rax, 8(%rbx)\n"
    "  mov 24(%rbx), %rax\n ret\n 1: mov 16(%rbx), %rax\n ret\n"
    "code_released: mov $0x200000000, %rcx\n mov 8(%rbx), %rax\n sub %rcx, %rax\n mov %rax, 8(%rbx)\n"
    "  mov 24(%rbx), %rax\n ret\n"
    "code_released_twice: mov $0x400000000, %rcx\n mov 8(%rbx), %rax\n sub %rcx, %rax\n mov %rax, 8(%rbx)\n"
    "  mov 24(%rbx), %rax\n ret\n"
    "loads_self: mov (%r13), %r13\n jmp method\n"
    "code_boxed: mov %rbx, -24(%rbp)\n lea -24(%rbp), %r13\n call loads_self\n ret\n"
    "code_same: call unknown_value\n test %rax, %rax\n je 1f\n nop\n 1: mov 16(%rbx), %rax\n ret\n"
    "code_differs: call unknown_value\n test %rax, %rax\n je 1f\n mov 24(%rbx), %rax\n ret\n 1: mov 16(%rbx), %rax\n ret\n"
    "code_trap: call unknown_value\n test $1, %al\n jne 1f\n mov 16(%rbx), %rax\n ret\n 1: ud2\n"
    "code_known: test %rbx, %rbx\n jne 1f\n mov 24(%rbx), %rax\n 1: mov 16(%rbx), %rax\n ret\n"
    "code_endless: nop\n jmp code_endless\n"
    "code_elsewhere: mov $1, %eax\n ret\n");

extern const char code_virtual[], code_thunk[], code_read[], code_write[], code_vector[], code_spilled[], code_pair[],
    code_passed_over[], code_argument[], code_place[], code_offset[], code_counted[], code_released[],
    code_released_twice[], code_boxed[], loads_self[], code_same[], code_differs[], code_trap[], code_known[],
    code_endless[], code_elsewhere[], thunk[];

static const struct row rows[] = {
    {"a virtual call", code_virtual, CALL, method, 32, false, false},
    {"a call of a thunk", code_thunk, CALL, thunk, CALL, false, false},
    {"a read", code_read, 16, NULL, NONE, false, false},
    {"a write", code_write, 24, NULL, NONE, true, false},
    {"a vector", code_vector, 16, NULL, NONE, false, false},
    {"a reference on the stack", code_spilled, 40, NULL, NONE, false, false},
    {"a reference in a vector", code_pair, 40, NULL, NONE, false, false},
    {"a call that leaves r13 alone", code_passed_over, CALL, method, 32, false, true},
    {"an argument", code_argument, 24, NULL, NONE, false, false},
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
    {"an endless loop", code_endless, NONE, NULL, NONE, false, false},
    {"nothing", code_elsewhere, NONE, NULL, NONE, false, false},
};

static bool is_of_test(uint64_t from, uint64_t bytes) {
    return lies_in(from, bytes, (const void *)((uint64_t)method & ~UINT64_C(4095)), 8192);
}

static const char *called_through(uint64_t pc, uint64_t place) { return (void)pc, (void)place, NULL; }

// DWARF register numbers: rbx 3, rbp 6, rsp 7, r13 13.
static void fill_registers(struct zg_registers *registers) {
    registers->value[3] = registers->value[13] = (uint64_t)object;
    registers->value[6] = (uint64_t)&stack[40];
    registers->value[7] = (uint64_t)&stack[32];
    registers->known = 1u << 3 | 1u << 6 | 1u << 7 | 1u << 13;
}

int main(void) { return check_lookahead(rows, sizeof rows / sizeof *rows); }
