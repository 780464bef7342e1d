// The order in which the kernel keeps registers (asm/ptrace.h), for aarch64: x0 to x30, sp, pc, as DWARF has them.

#if defined(__aarch64__)
#include "zg_unwind_threads.h"

bool zg_thread_registers_of(const void *bytes, size_t count, uint64_t registers[ZG_THREAD_REGISTERS]) {
    if (count < ZG_THREAD_REGISTERS * sizeof(uint64_t)) return false;
    __builtin_memcpy(registers, bytes, ZG_THREAD_REGISTERS * sizeof(uint64_t));
    return true;
}

// The kernel has decided before it stops whether the call begins again (arch/arm64/kernel/signal.c), and its first argument is lost.
bool zg_thread_mend_call(void *bytes, size_t count) {
    (void)bytes, (void)count;
    return false;
}

// Without the link register a stack ends at its first function anyway.
int64_t zg_unwind_frame_bytes(const unsigned char *code, size_t count) {
    (void)code, (void)count;
    return -1;
}

#endif
