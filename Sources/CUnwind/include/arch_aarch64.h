// What libunwind calls this processor, and registers by their DWARF numbers (the address of the instruction has none).

#if defined(__aarch64__) && !defined(ZG_THREAD_ARCH)
#define ZG_THREAD_ARCH
#define ZG_UNWIND_LIBRARY "libunwind-aarch64.so.8"
#define ZG_UNWIND_PREFIX "_Uaarch64_"
enum { ZG_THREAD_PC = 32, ZG_THREAD_SP = 31, ZG_THREAD_FP = 29 };
enum { ZG_THREAD_GOROUTINE = 28 }; // where Go keeps what it runs (abi-internal.md)
#endif
