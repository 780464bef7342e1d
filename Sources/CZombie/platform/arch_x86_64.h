// The inline part of x86-64: system calls, DWARF register numbers (System V ABI, figure 3.36), the caller's frame.

#ifndef ZG_ARCH_X86_64_H
#define ZG_ARCH_X86_64_H

#define ZG_ARCH_REGISTER_COUNT 17
#define ZG_ARCH_FP 6
#define ZG_ARCH_PC 16 // a DWARF number
#define ZG_ARCH_SP 7
#define ZG_ARCH_RA 16
// The processor in ELF files and in seccomp filters (elf.h, linux/audit.h).
#define ZG_ARCH_ELF_MACHINE EM_X86_64
#define ZG_ARCH_AUDIT AUDIT_ARCH_X86_64
#define ZG_ARCH_FIRST_GLIBC "GLIBC_2.2.5" // glibc's first version for this processor
#define ZG_ARCH_ADDRESS_BITS 47           // bits of a user address
#define ZG_ARCH_SIGNAL_RETURN_BYTES 0     // the trampoline is known by its CFI
#define ZG_ARCH_ARGUMENT_REGISTERS 6
#define ZG_ARCH_ENCODED_REGISTERS 16 // registers that instructions can name
#define ZG_ARCH_INSTRUCTION_BYTES 15 // at most
#define ZG_ARCH_CODE_UNIT 1
// The refcount emulator takes unknown flags and vectors for zeros. Of 300,000 emulations from random places of real
// programs, 15 % of those that reached a result would reach none if flags and vectors stayed unknown.
#define ZG_ARCH_ASSUMES_ZEROS true
#define ZG_ARCH_TRAPS_AFTER_ACCESS 1 // a watchpoint's trap follows the accessing instruction
#define ZG_ARCH_SNAPSHOT 1           // zguard may fork the stopped process (arch_x86_64_snapshot.c)
#define ZG_ARCH_CONTEXT_BYTES 304    // size of the kernel's ucontext, which is shorter than libc's
#define ZG_ARCH_RED_ZONE 256         // the ABI's 128 bytes below the stack pointer, and a margin

// Size of a detour, and its greatest distance from the function: a jump has 32 bits.
enum { ZG_ARCH_DETOUR_ROOM = 128, ZG_ARCH_DETOUR_REACH = 1 << 30 };

// The time-stamp counter: constant rate, not serializing. If the program or strict mode forbids the instruction
// (PR_SET_TSC, SECCOMP_MODE_STRICT), each call counts a fixed number of ticks.
extern uint32_t zg_arch_ticks_stopped;
uint64_t zg_arch_count_ticks(void);
ZG_INLINE uint64_t zg_arch_ticks(void) {
    return ZG_UNLIKELY(zg_arch_ticks_stopped) ? zg_arch_count_ticks() : __builtin_ia32_rdtsc();
}

// Returns the stack pointer.
ZG_INLINE uint64_t zg_arch_stack_end(void) {
    uint64_t sp;
    __asm__ volatile("mov %%rsp, %0" : "=r"(sp));
    return sp;
}

// DWARF's number of the register that instructions encode as `number`.
ZG_INLINE int zg_arch_dwarf_number(int number) {
    static const uint8_t numbers[ZG_ARCH_ENCODED_REGISTERS] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
    return numbers[number];
}

ZG_INLINE void zg_arch_pause(void) { __builtin_ia32_pause(); }

// Prefetches a line that this thread will write, and takes it from the other threads' caches. Processors without
// PREFETCHW ignore the instruction (Intel SDM). __builtin_prefetch is not used: for the baseline processor, compilers
// emit a prefetch that only reads.
ZG_INLINE void zg_arch_prefetch_for_write(const void *start) {
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)start));
}

// Reads the stack `bytes` below the stack pointer, so that a stack that is too short overflows here.
#define ZG_ARCH_REACH_STACK(bytes) __asm__ volatile("testb $0, %c0(%%rsp)" : : "i"(-(bytes)) : "cc", "memory")

ZG_INLINE long zg_arch_syscall(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

// Returns how far below the CFA the return address lies, in a frame that saves the frame pointer `fp_place` bytes below
// the CFA.
ZG_INLINE uint64_t zg_arch_return_place(uint64_t fp_place) {
    (void)fp_place; // the call instruction pushes the return address
    return 8;
}

// Returns the code address of a return address, which x86-64 does not sign.
ZG_INLINE uint64_t zg_arch_strip(uint64_t address) { return address; }

// Assumed distance of the CFA from the frame pointer in a function without unwind information. zg_arch_is_sp_exact is
// false if such a CFA is only a bound of the caller's stack pointer; outer frames are then found by their frame
// pointers.
#define ZG_ARCH_GUESSED_CFA 16
ZG_INLINE bool zg_arch_is_sp_exact(uint64_t sp) {
    (void)sp;
    return true;
}
ZG_INLINE uint64_t zg_arch_sp_bound(uint64_t sp) { return sp; }

// The processor has no memory tags: a pointer is an address.
#define ZG_ARCH_TAGS 0
enum { ZG_ARCH_TAG_MOST = 0 };
ZG_INLINE uint64_t zg_arch_address(uint64_t pointer) { return pointer; }
ZG_INLINE uint32_t zg_arch_tag(uint64_t pointer) {
    (void)pointer;
    return 0;
}
ZG_INLINE uint64_t zg_arch_with_tag(uint64_t address, uint32_t tag) {
    (void)tag;
    return address;
}

#define ZG_ARCH_FRAME() ((const uint64_t *)__builtin_frame_address(0))
// Returns the stack pointer of the caller of the function whose frame address is `frame`. The function keeps a frame
// pointer.
ZG_INLINE uint64_t zg_arch_caller_sp(const uint64_t *frame) { return (uint64_t)(frame + 2); }
ZG_INLINE uint64_t *zg_arch_return_word(const uint64_t *frame) { return (uint64_t *)frame + 1; }

#endif
