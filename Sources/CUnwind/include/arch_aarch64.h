// libunwind's library and symbol names for aarch64, and DWARF register numbers. The program counter has no DWARF
// number; 32 is libunwind's.

#if defined(__aarch64__) && !defined(ZG_THREAD_ARCH)
#define ZG_THREAD_ARCH
#define ZG_UNWIND_LIBRARY "libunwind-aarch64.so.8"
#define ZG_UNWIND_PREFIX "_Uaarch64_"
enum { ZG_THREAD_PC = 32, ZG_THREAD_SP = 31, ZG_THREAD_FP = 29 };
enum { ZG_THREAD_GOROUTINE = 28 }; // Go's pointer to the current goroutine (abi-internal.md)
#endif
