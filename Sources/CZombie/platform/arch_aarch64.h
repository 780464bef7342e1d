// The inline part of AArch64: system calls, DWARF register numbers (aadwarf64, "DWARF for the Arm 64-bit
// Architecture"), the caller's frame.

#ifndef ZG_ARCH_AARCH64_H
#define ZG_ARCH_AARCH64_H

#define ZG_ARCH_REGISTER_COUNT 32 // x0 to x30, sp
#define ZG_ARCH_FP 29
#define ZG_ARCH_PC 32 // not a DWARF number
#define ZG_ARCH_SP 31
#define ZG_ARCH_RA 30
#define ZG_ARCH_ARGUMENT_REGISTERS 8
#define ZG_ARCH_ENCODED_REGISTERS 32 // registers that instructions can name
#define ZG_ARCH_INSTRUCTION_BYTES 4
#define ZG_ARCH_CODE_UNIT 4
// Flags and vectors are unknown where the refcount emulator starts.
#define ZG_ARCH_ASSUMES_ZEROS false
#define ZG_ARCH_TRAPS_AFTER_ACCESS 0 // a watchpoint's exception precedes the access; not supported here
// zguard cannot fork the process: code without a stack cannot restore all registers, because its branch back needs a
// register.
#define ZG_ARCH_SNAPSHOT 0
#define ZG_ARCH_CONTEXT_BYTES 4560 // size of the kernel's ucontext
#define ZG_ARCH_RED_ZONE 128       // a margin; the ABI has no red zone
// The processor in ELF files and in seccomp filters (elf.h, linux/audit.h).
#define ZG_ARCH_ELF_MACHINE EM_AARCH64
#define ZG_ARCH_AUDIT AUDIT_ARCH_AARCH64
#define ZG_ARCH_FIRST_GLIBC "GLIBC_2.17" // glibc's first version for this processor
#define ZG_ARCH_ADDRESS_BITS 52          // bits of a user address, if the program asks for the highest addresses
#define ZG_ARCH_SIGNAL_RETURN_BYTES 8

// Size of a detour, and its greatest distance from the function: adrp has 21 bits, for pages of 4 KiB.
enum { ZG_ARCH_DETOUR_ROOM = 256, ZG_ARCH_DETOUR_REACH = 1 << 30 };

// The virtual counter, which the kernel lets programs read: constant rate, slower than the processor's clock (25 to
// 1000 MHz). The kernel never forbids it. With zg_arch_ticks_stopped, each call counts a fixed number of ticks.
extern uint32_t zg_arch_ticks_stopped;
uint64_t zg_arch_count_ticks(void);
ZG_INLINE uint64_t zg_arch_ticks(void) {
    if (ZG_UNLIKELY(zg_arch_ticks_stopped)) return zg_arch_count_ticks();
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

// Returns the stack pointer.
ZG_INLINE uint64_t zg_arch_stack_end(void) {
    uint64_t sp;
    __asm__ volatile("mov %0, sp" : "=r"(sp));
    return sp;
}

// DWARF's number of the register that instructions encode as `number`; 31 as a base is sp.
ZG_INLINE int zg_arch_dwarf_number(int number) { return number; }

ZG_INLINE void zg_arch_pause(void) { __asm__ volatile("yield"); }

// Prefetches a line that this thread will write, and takes it from the other threads' caches.
ZG_INLINE void zg_arch_prefetch_for_write(const void *start) { __builtin_prefetch(start, 1); }

// Reads the stack `bytes` below the stack pointer, so that a stack that is too short overflows here.
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

// Removes the signature that a function may have put into the high bits of a return address. The instruction (xpaclri)
// is a hint: processors without signatures ignore it.
ZG_INLINE uint64_t zg_arch_strip(uint64_t address) {
    register uint64_t x30 __asm__("x30") = address;
    __asm__("hint #7" : "+r"(x30));
    return x30;
}

// Returns how far below the CFA the return address lies, in a frame that saves the frame pointer `fp_place` bytes below
// the CFA.
ZG_INLINE uint64_t zg_arch_return_place(uint64_t fp_place) {
    return fp_place - 8; // frame record: the caller's frame pointer, then the return address
}

// Memory tags (FEAT_MTE; Arm Architecture Reference Manual, D10): each granule of 16 bytes may have a tag, with which
// each access compares bits 56 to 59 of the pointer. These functions return a pointer's address, its tag, and an
// address with a tag. The processor may have no tags.
#define ZG_ARCH_TAGS 1
enum { ZG_ARCH_TAG_SHIFT = 56, ZG_ARCH_TAG_MOST = 15 };
ZG_INLINE uint64_t zg_arch_address(uint64_t pointer) {
    return pointer & ~((uint64_t)ZG_ARCH_TAG_MOST << ZG_ARCH_TAG_SHIFT);
}
ZG_INLINE uint32_t zg_arch_tag(uint64_t pointer) { return pointer >> ZG_ARCH_TAG_SHIFT & ZG_ARCH_TAG_MOST; }
ZG_INLINE uint64_t zg_arch_with_tag(uint64_t address, uint32_t tag) {
    return address | (uint64_t)tag << ZG_ARCH_TAG_SHIFT;
}

// A frame record may lie anywhere in its frame (gcc: at the bottom, clang: below the saved registers), so the caller's
// stack pointer is at or above the record's end. Exact stack pointers are multiples of 16; any other value is only a
// bound.
#define ZG_ARCH_GUESSED_CFA 24
ZG_INLINE bool zg_arch_is_sp_exact(uint64_t sp) { return !(sp & 8); }
ZG_INLINE uint64_t zg_arch_sp_bound(uint64_t sp) { return sp & ~UINT64_C(15); }

// The parts of a published function's frame that the runtime needs during the call: a copy of the frame record, the
// caller's stack pointer, which the record does not contain, and the record's address. Valid in the enclosing C block.
#if defined(__clang__)
#define ZG_ARCH_ENTRY_SP() ((uint64_t)__builtin_sponentry())
#else
#define ZG_ARCH_ENTRY_SP() ((uint64_t)__builtin_dwarf_cfa())
#endif
#define ZG_ARCH_FRAME()                                                                                                \
    ((const uint64_t[4]){((const uint64_t *)__builtin_frame_address(0))[0],                                            \
                         ((const uint64_t *)__builtin_frame_address(0))[1], ZG_ARCH_ENTRY_SP(),                        \
                         (uint64_t)__builtin_frame_address(0)})

// Returns the stack pointer of the caller of the function whose frame this is.
ZG_INLINE uint64_t zg_arch_caller_sp(const uint64_t *frame) { return frame[2]; }
// Returns the address from which the function loads its return address.
ZG_INLINE uint64_t *zg_arch_return_word(const uint64_t *frame) { return (uint64_t *)frame[3] + 1; }

#endif
