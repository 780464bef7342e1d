// AArch64 in line: system calls, DWARF register numbers (aadwarf64, "DWARF for the Arm 64-bit Architecture"), the caller's frame.

#ifndef ZG_ARCH_AARCH64_H
#define ZG_ARCH_AARCH64_H

#define ZG_ARCH_REGISTER_COUNT 32 // x0 to x30, sp
#define ZG_ARCH_FP 29
#define ZG_ARCH_PC 32 // apart
#define ZG_ARCH_SP 31
#define ZG_ARCH_RA 30
#define ZG_ARCH_ARGUMENT_REGISTERS 8
#define ZG_ARCH_CONTEXT_BYTES 4560 // of the kernel's ucontext
#define ZG_ARCH_RED_ZONE 128       // the ABI has none; room
// As ELF files and filters of system calls name it (elf.h, linux/audit.h).
#define ZG_ARCH_ELF_MACHINE EM_AARCH64
#define ZG_ARCH_AUDIT AUDIT_ARCH_AARCH64
#define ZG_ARCH_FIRST_GLIBC "GLIBC_2.17" // the first that had this processor
#define ZG_ARCH_ADDRESS_BITS 52          // of a program's addresses, where it asks for the highest
#define ZG_ARCH_SIGNAL_RETURN_BYTES 8

// Bytes of a detour, and how far from the function it may stand: adrp has 21 bits, for pages of 4 KiB.
enum { ZG_ARCH_DETOUR_ROOM = 256, ZG_ARCH_DETOUR_REACH = 1 << 30 };

// The counter that the kernel lets programs read: constant rate, slower than the processor's clock (25 to 1000 MHz). Nothing makes
// the kernel forbid it; where ticks are to stop, they are counted by the asking.
extern uint32_t zg_arch_ticks_stopped;
uint64_t zg_arch_count_ticks(void);
ZG_INLINE uint64_t zg_arch_ticks(void) {
    if (ZG_UNLIKELY(zg_arch_ticks_stopped)) return zg_arch_count_ticks();
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

// Where the stack ends just now.
ZG_INLINE uint64_t zg_arch_stack_end(void) {
    uint64_t sp;
    __asm__ volatile("mov %0, sp" : "=r"(sp));
    return sp;
}

ZG_INLINE void zg_arch_pause(void) { __asm__ volatile("yield"); }

// Reads the stack that many bytes further on: a stack that is too short for what follows runs over here.
#define ZG_ARCH_REACH_STACK(bytes) ((void)*(const volatile uint8_t *)(zg_arch_stack_end() - (bytes)))

ZG_INLINE long zg_arch_syscall(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

// An address of code without the signature that a function may have put into its high bits before it stored it. The instruction
// (xpaclri) is a hint: processors that sign nothing do nothing.
ZG_INLINE uint64_t zg_arch_strip(uint64_t address) {
    register uint64_t x30 __asm__("x30") = address;
    __asm__("hint #7" : "+r"(x30));
    return x30;
}

// Distance of the return address below the CFA, in a frame that saves the frame pointer `fp_place` bytes below it.
ZG_INLINE uint64_t zg_arch_return_place(uint64_t fp_place) {
    return fp_place - 8; // a frame record: the caller's frame pointer, then the return address
}

// Tags of memory (FEAT_MTE; Arm Architecture Reference Manual, D10): each 16 bytes, a granule, may have one, and bits 56 to 59 of a pointer
// are compared with it at each access. What a pointer leads to, its tag, and an address with a tag. The processor may have none.
#define ZG_ARCH_TAGS 1
enum { ZG_ARCH_TAG_SHIFT = 56, ZG_ARCH_TAG_MOST = 15 };
ZG_INLINE uint64_t zg_arch_address(uint64_t pointer) {
    return pointer & ~((uint64_t)ZG_ARCH_TAG_MOST << ZG_ARCH_TAG_SHIFT);
}
ZG_INLINE uint32_t zg_arch_tag(uint64_t pointer) { return pointer >> ZG_ARCH_TAG_SHIFT & ZG_ARCH_TAG_MOST; }
ZG_INLINE uint64_t zg_arch_with_tag(uint64_t address, uint32_t tag) {
    return address | (uint64_t)tag << ZG_ARCH_TAG_SHIFT;
}

// A frame record lies anywhere in its frame (gcc's at the bottom, clang's under the registers that it saves): the caller's stack
// pointer is no lower than the record's end. Stack pointers are multiples of 16; what is no such multiple is only a bound.
#define ZG_ARCH_GUESSED_CFA 24
ZG_INLINE bool zg_arch_is_sp_exact(uint64_t sp) { return !(sp & 8); }
ZG_INLINE uint64_t zg_arch_sp_bound(uint64_t sp) { return sp & ~UINT64_C(15); }

// What is kept of a published function's frame while the runtime works for it: a copy of its frame record, the caller's stack pointer,
// which the record does not tell, and the record's place. It lives as long as the block that it stands in.
#if defined(__clang__)
#define ZG_ARCH_ENTRY_SP() ((uint64_t)__builtin_sponentry())
#else
#define ZG_ARCH_ENTRY_SP() ((uint64_t)__builtin_dwarf_cfa())
#endif
#define ZG_ARCH_FRAME()                                                                                                \
    ((const uint64_t[4]){((const uint64_t *)__builtin_frame_address(0))[0],                                            \
                         ((const uint64_t *)__builtin_frame_address(0))[1], ZG_ARCH_ENTRY_SP(),                        \
                         (uint64_t)__builtin_frame_address(0)})

// The stack pointer of the caller of the function that this frame is of.
ZG_INLINE uint64_t zg_arch_caller_sp(const uint64_t *frame) { return frame[2]; }
// Where the function takes its return address from.
ZG_INLINE uint64_t *zg_arch_return_word(const uint64_t *frame) { return (uint64_t *)frame[3] + 1; }

#endif
