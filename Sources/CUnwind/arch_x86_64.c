// x86-64: converts the kernel's register layout (asm/ptrace.h), restarts interrupted system calls, decodes prologues.

#if defined(__x86_64__)
#include "zg_unwind_threads.h"

#include <errno.h>

bool zg_thread_registers_of(const void *bytes, size_t count, uint64_t registers[ZG_THREAD_REGISTERS]) {
    // Kernel: r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss.
    // DWARF: rax rdx rcx rbx rsi rdi rbp rsp r8 to r15 rip.
    static const unsigned char places[] = {10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16};
    enum { WORDS = 21 };
    if (count < WORDS * sizeof(uint64_t)) return false;
    for (int i = 0; i < ZG_THREAD_REGISTERS; i++) registers[i] = 0;
    for (size_t i = 0; i < sizeof places; i++)
        __builtin_memcpy(&registers[i], (const char *)bytes + places[i] * sizeof(uint64_t), sizeof(uint64_t));
    return true;
}

// On detach, the kernel inspects orig_rax and rax (arch_do_signal_or_restart). -ERESTARTNOHAND, which programs never
// see, restarts the call if no handler runs, and becomes EINTR otherwise. A relative timeout starts over. That is
// harmless, because the call has only just begun: a thread that was already in such a call would not have been stopped.
bool zg_thread_restart_call(void *bytes, size_t count) {
    enum { RAX = 10, ORIGINAL_RAX = 15, ERESTARTNOHAND = 514 };
    int64_t *words = bytes;
    if (count <= ORIGINAL_RAX * sizeof *words || words[ORIGINAL_RAX] < 0 || words[RAX] != -EINTR) return false;
    words[RAX] = -ERESTARTNOHAND;
    return true;
}

static bool is_at(const unsigned char *code, size_t count, size_t at, const char *bytes, size_t length) {
    return at + length <= count && __builtin_memcmp(code + at, bytes, length) == 0;
}

// Decodes the usual prologue: push %rbp; mov %rsp,%rbp; more pushes; sub $N,%rsp. Instructions that need no frame may
// precede it.
int64_t zg_unwind_prologue_frame_offset(const unsigned char *code, size_t count) {
    enum { PUSH = 0x50, PUSH_END = 0x58, REX_B = 0x41, BEGIN = 4 };
    size_t at = 0;
    int64_t bytes = 0;
    while (!is_at(code, count, at, "\x55\x48\x89\xe5", BEGIN) && !is_at(code, count, at, "\x55\x48\x8b\xec", BEGIN))
        if (++at >= count) return -1;
    for (at += BEGIN; at < count; bytes += 8) {
        size_t prefix = code[at] == REX_B;
        if (at + prefix >= count || code[at + prefix] < PUSH || code[at + prefix] >= PUSH_END) break;
        at += prefix + 1;
    }
    if (is_at(code, count, at, "\x48\x83\xec", 3) && at + 4 <= count) return bytes + (int8_t)code[at + 3];
    if (is_at(code, count, at, "\x48\x81\xec", 3) && at + 7 <= count) {
        int32_t size;
        __builtin_memcpy(&size, code + at + 3, sizeof size);
        return bytes + size;
    }
    return bytes;
}

#endif
