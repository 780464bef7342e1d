// What the files of published functions share.

#ifndef ZG_PUBLISH_H
#define ZG_PUBLISH_H

#include "zg_published.h"

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
#define ZG_FRAME ((const uint64_t *)__builtin_frame_address(0))
// The value is "changed" after the call: the frame has to live that long.
#define ZG_KEEP(value) __asm__ volatile("" : "+r"(value)::"memory")
#define ZG_KEEP_CALL() __asm__ volatile("" ::: "memory")

#endif
