// Macros shared by the files that define published functions.

#ifndef ZG_PUBLISH_H
#define ZG_PUBLISH_H

#include "platform/arch.h"
#include "zg_published.h"

#include <errno.h>

// A build with a sanitizer publishes nothing: the sanitizer's own malloc must stay in place.
#ifndef __has_feature
#define __has_feature(feature) 0 // gcc lacks __has_feature
#endif
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ZG_NOTHING_IS_PUBLISHED
#endif

// Many published functions tail-call (ZG_MUST_TAIL) libc's. Thread stacks then look as in an unguarded process, dlopen
// finds its caller's search path by the return address, and a bypassed call costs only the check.
// noinline keeps the compiler from moving cold parts to functions of their own (hot-cold splitting), whose frames would
// hide the caller.
#define ZG_PUBLISH __attribute__((visibility("default"), noinline))
#define ZG_FRAME ZG_ARCH_FRAME()
// The seventh argument of syscall and clone, which callers may omit. Passed on the stack (x86-64), the argument stays
// in the caller's frame across a tail call and must not be declared. Passed in a register (AArch64), it must be
// declared to be forwarded. ZG_STACK_ARGUMENT_ADDRESS is the argument's address.
#if ZG_ARCH_ARGUMENT_REGISTERS > 6
#define ZG_STACK_ARGUMENT(...) , __VA_ARGS__
#define ZG_STACK_ARGUMENT_ADDRESS(name) ((const uint64_t[1]){(uint64_t)(name)})
#else
#define ZG_STACK_ARGUMENT(...)
#define ZG_STACK_ARGUMENT_ADDRESS(name) (ZG_FRAME + 2)
#endif
// An empty asm statement that pretends to modify a call's result, so that the compiler cannot make the call a tail
// call.
#define ZG_NO_TAIL_CALL(value) __asm__ volatile("" : "+r"(value)::"memory")
#define ZG_NO_TAIL_CALL_VOID() __asm__ volatile("" ::: "memory")

// Makes a system call with libc's result convention: -1 and errno on failure. For calls before libc's function has been
// looked up, or if libc lacks the function. Not a cancellation point.
ZG_INLINE long zg_raw_syscall(long number, long a, long b, long c, long d, long e, long f) {
    long result = zg_arch_syscall(number, a, b, c, d, e, f);
    if (result >= 0 || result <= -4096) return result;
    errno = (int)-result;
    return -1;
}
// Implements mlock, mlock2 and munlock, also when called through syscall (memory.c). -1 and errno on failure.
long zg_mlock_by_number(long number, uint64_t start, uint64_t bytes, long flags, const uint64_t *frame);

#define ZG_RAW_SYSCALL(number, a, b, c, d, e, f)                                                                       \
    zg_raw_syscall((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#endif
