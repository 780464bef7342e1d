// Converts the kernel's register layout (asm/ptrace.h) on aarch64: x0 to x30, sp, pc, which is the order of DWARF.

#if defined(__aarch64__)
#include "zg_unwind_threads.h"

bool zg_thread_registers_of(const void *bytes, size_t count, uint64_t registers[ZG_THREAD_REGISTERS]) {
    if (count < ZG_THREAD_REGISTERS * sizeof(uint64_t)) return false;
    __builtin_memcpy(registers, bytes, ZG_THREAD_REGISTERS * sizeof(uint64_t));
    return true;
}

// Nothing can be changed here: arm64 decides before the ptrace stop whether a system call is restarted
// (arch/arm64/kernel/signal.c), and the call's first argument is lost by then.
bool zg_thread_restart_call(void *bytes, size_t count) {
    (void)bytes, (void)count;
    return false;
}

// Decoding prologues is not useful on aarch64: without a known link register, unwinding ends at the first frame in any
// case.
int64_t zg_unwind_prologue_frame_offset(const unsigned char *code, size_t count) {
    (void)code, (void)count;
    return -1;
}

#endif
