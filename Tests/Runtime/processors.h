// Processor specifics for tests: the result register in a signal's context, a switch of stacks, and a few instructions.

#ifndef PROCESSORS_H
#define PROCESSORS_H

#include <stdint.h>
#include <string.h>
#include <ucontext.h>

// Pushes the callee-saved registers and stores the stack pointer in `*from`. Then continues at `to`, a stack pointer
// that was saved in the same way.
void switch_stack(void **from, void *to);

#if defined(__x86_64__)

#define CONTEXT_RESULT(context) (((ucontext_t *)(context))->uc_mcontext.gregs[REG_RAX])

// Base register of LOAD, STORE and CALL, and another register, as DWARF numbers.
enum { BASE_REGISTER = 3, OTHER_REGISTER = 5 };
#define CODE_LOAD 0x48, 0x8b, 0x03                    // mov (%rbx),%rax
#define CODE_LOAD_FAR 0x48, 0x8b, 0x83, 0, 0x10, 0, 0 // mov 0x1000(%rbx),%rax
#define CODE_STORE 0x48, 0x89, 0x03                   // mov %rax,(%rbx)
#define CODE_CALL_REGISTER 0xff, 0xd0                 // call *%rax
#define CODE_CALL_MEMORY 0xff, 0x53, 0x10             // call *16(%rbx)

enum { SWITCHED_WORDS = 6 };
#define DEFINE_SWITCH_STACK                                                                                            \
    __asm__(".text\n"                                                                                                  \
            ".globl switch_stack\n"                                                                                    \
            ".type switch_stack, @function\n"                                                                          \
            "switch_stack:\n"                                                                                          \
            "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"                           \
            "  mov %rsp, (%rdi)\n"                                                                                     \
            "  mov %rsi, %rsp\n"                                                                                       \
            "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"                                 \
            "  ret\n"                                                                                                  \
            ".size switch_stack, .-switch_stack\n");

// Returns a stack that ends at `top`, on which `first` runs with this return address.
static inline void *stack_for(char *top, void (*first)(void), void *return_address) {
    uint64_t *words = (uint64_t *)top;
    *--words = (uint64_t)return_address;
    *--words = (uint64_t)first;
    return memset(words - SWITCHED_WORDS, 0, SWITCHED_WORDS * sizeof *words);
}

#elif defined(__aarch64__)

#define CONTEXT_RESULT(context) (((ucontext_t *)(context))->uc_mcontext.regs[0])

enum { BASE_REGISTER = 19, OTHER_REGISTER = 20 };
#define CODE_LOAD 0x60, 0x02, 0x40, 0xf9          // ldr x0, [x19]
#define CODE_LOAD_FAR 0x60, 0x02, 0x48, 0xf9      // ldr x0, [x19, #0x1000]
#define CODE_STORE 0x60, 0x02, 0x00, 0xf9         // str x0, [x19]
#define CODE_CALL_REGISTER 0x00, 0x00, 0x3f, 0xd6 // blr x0

#define DEFINE_SWITCH_STACK                                                                                            \
    __asm__(".text\n"                                                                                                  \
            ".globl switch_stack\n"                                                                                    \
            ".type switch_stack, %function\n"                                                                          \
            "switch_stack:\n"                                                                                          \
            "  stp x29, x30, [sp, #-112]!\n"                                                                           \
            "  stp x19, x20, [sp, #16]\n  stp x21, x22, [sp, #32]\n  stp x23, x24, [sp, #48]\n"                        \
            "  stp x25, x26, [sp, #64]\n  stp x27, x28, [sp, #80]\n  str x30, [sp, #96]\n"                             \
            "  mov x9, sp\n"                                                                                           \
            "  str x9, [x0]\n"                                                                                         \
            "  mov sp, x1\n"                                                                                           \
            "  ldp x19, x20, [sp, #16]\n  ldp x21, x22, [sp, #32]\n  ldp x23, x24, [sp, #48]\n"                        \
            "  ldp x25, x26, [sp, #64]\n  ldp x27, x28, [sp, #80]\n  ldr x9, [sp, #96]\n"                              \
            "  ldp x29, x30, [sp], #112\n"                                                                             \
            "  br x9\n"                                                                                                \
            ".size switch_stack, .-switch_stack\n");

static inline void *stack_for(char *top, void (*first)(void), void *return_address) {
    enum { WORDS = 14, LINK = 1, GO_ON = 12 };
    uint64_t *words = (uint64_t *)top - WORDS;
    memset(words, 0, WORDS * sizeof *words);
    words[LINK] = (uint64_t)return_address;
    words[GO_ON] = (uint64_t)first;
    return words;
}

#endif

#endif
