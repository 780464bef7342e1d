// What the one-bug programs share: functions that keep a frame of their own, and pointers that stay in sight.

#ifndef BUG_H
#define BUG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A function that is never inlined, cloned or folded, so that its name is certain to stand in the stack.
#ifdef __clang__
#define FRAME __attribute__((noinline))
#else
#define FRAME __attribute__((noipa))
#endif

// Behind the last call of a function: the call is not in tail position, so its frame is still there during the call.
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

// The compiler has to have `pointer` at hand here, so it is in a register or on the stack at every access before.
#define HOLD(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

// From here on the compiler cannot tell what `variable` holds.
#define FORGET(variable) __asm__ volatile("" : "+r"(variable) : : "memory")

#endif
