// The order in which the kernel keeps registers (asm/ptrace.h), for x86-64.

#if defined(__x86_64__)
#include "zg_unwind_threads.h"

bool zg_thread_registers_of(const void *bytes, size_t count, uint64_t registers[ZG_THREAD_REGISTERS]) {
    // r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss; DWARF: rax rdx rcx rbx rsi rdi rbp rsp r8…
    static const unsigned char places[] = {10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16};
    enum { WORDS = 21 };
    if (count < WORDS * sizeof(uint64_t)) return false;
    for (int i = 0; i < ZG_THREAD_REGISTERS; i++) registers[i] = 0;
    for (size_t i = 0; i < sizeof places; i++)
        __builtin_memcpy(&registers[i], (const char *)bytes + places[i] * sizeof(uint64_t), sizeof(uint64_t));
    return true;
}

#endif
