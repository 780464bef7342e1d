// libunwind's library and symbol names for x86-64, and DWARF register numbers.

#if defined(__x86_64__) && !defined(ZG_THREAD_ARCH)
#define ZG_THREAD_ARCH
#define ZG_UNWIND_LIBRARY "libunwind-x86_64.so.8"
#define ZG_UNWIND_PREFIX "_Ux86_64_"
enum { ZG_THREAD_PC = 16, ZG_THREAD_SP = 7, ZG_THREAD_FP = 6 };
enum { ZG_THREAD_GOROUTINE = 14 }; // Go's pointer to the current goroutine (abi-internal.md)
#endif
