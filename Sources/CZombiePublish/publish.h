// What the files of published functions share.

#ifndef ZG_PUBLISH_H
#define ZG_PUBLISH_H

#include "platform/arch.h"
#include "zg_published.h"

#include <errno.h>

// A sanitizer has a malloc of its own, which must stay: built with one, nothing is published.
#ifndef __has_feature
#define __has_feature(feature) 0 // gcc
#endif
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ZG_NOTHING_IS_PUBLISHED
#endif

// Many of them end in ZG_MUST_TAIL: stacks of threads look as they do unguarded, the loader finds its caller's search path by its
// own return address, and what is passed on to libc costs no more than the question.
#define ZG_PUBLISH __attribute__((visibility("default")))
#define ZG_FRAME ZG_ARCH_FRAME()
// The seventh argument of functions that are called with as many, or with fewer. Where it comes on the caller's stack it stays there
// when the call is passed on in a jump; where it comes in a register it has to be named. ZG_SEVENTH_PLACE: where it is.
#if ZG_ARCH_ARGUMENT_REGISTERS > 6
#define ZG_SEVENTH(...) , __VA_ARGS__
#define ZG_SEVENTH_PLACE(name) ((const uint64_t[1]){(uint64_t)(name)})
#else
#define ZG_SEVENTH(...)
#define ZG_SEVENTH_PLACE(name) (ZG_FRAME + 2)
#endif
// The value is "changed" after the call: the frame has to live that long.
#define ZG_KEEP(value) __asm__ volatile("" : "+r"(value)::"memory")
#define ZG_KEEP_CALL() __asm__ volatile("" ::: "memory")

// A system call as libc makes it, for what comes before libc's function is known, or where there is none. Nobody cancels a thread then.
ZG_INLINE long zg_call_plainly(long number, long a, long b, long c, long d, long e, long f) {
    long result = zg_arch_syscall(number, a, b, c, d, e, f);
    if (result >= 0 || result <= -4096) return result;
    errno = (int)-result;
    return -1;
}
// mlock, mlock2 and munlock, and the same by number (memory.c).
long zg_publish_lock(long number, uint64_t start, uint64_t bytes, long flags, const uint64_t *frame);

#define ZG_PLAIN(number, a, b, c, d, e, f)                                                                             \
    zg_call_plainly((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#endif
