// The order in which the kernel keeps registers (asm/ptrace.h), for aarch64: x0 to x30, sp, pc, as DWARF has them.

#if defined(__aarch64__)
#include "zg_unwind_threads.h"

bool zg_thread_registers_of(const void *bytes, size_t count, uint64_t registers[ZG_THREAD_REGISTERS]) {
    if (count < ZG_THREAD_REGISTERS * sizeof(uint64_t)) return false;
    __builtin_memcpy(registers, bytes, ZG_THREAD_REGISTERS * sizeof(uint64_t));
    return true;
}

#endif
