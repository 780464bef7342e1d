// Prepares the calling thread for a search of its stack by another process. Any thread; takes no lock.

#define _GNU_SOURCE
#include "include/zg_testing.h"

#include <string.h>
#include <sys/prctl.h>

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

void zg_testing_allow_tracer(pid_t process) { prctl(PR_SET_PTRACER, (unsigned long)process, 0, 0, 0); }

// The compiler pushes all callee-saved registers before it makes room for the local variables, so the registers are
// above the lowest variable.
__attribute__((noinline)) void zg_testing_spill(void (*body)(void *context, uint64_t stack_pointer), void *context) {
    __builtin_unwind_init();
    volatile uint64_t lowest[2] = {0, 0};
    body(context, (uint64_t)(uintptr_t)&lowest[0]);
    lowest[1] = lowest[0];
}

__attribute__((noinline)) void zg_testing_clear_stack(void) {
    enum { BYTES = 16 << 10 }; // 1/32 of the stack of a Dispatch thread
    char dead[BYTES];
    explicit_bzero(dead, sizeof dead);
}

// The Swift runtime's allocator for frames of the current task's async functions.
extern __attribute__((swiftcall)) void *swift_task_alloc(size_t bytes);
extern __attribute__((swiftcall)) void swift_task_dealloc(void *frame);

void zg_testing_clear_task(void) {
    // 16 KiB with the allocator's headers of 16 bytes, in steps so small that the end of a slab is overwritten, too.
    enum { FRAMES = 512, BYTES = 16 };
    void *frames[FRAMES];
    for (int i = 0; i < FRAMES; i++) {
        frames[i] = swift_task_alloc(BYTES);
        explicit_bzero(frames[i], BYTES);
    }
    for (int i = FRAMES; i-- > 0;) swift_task_dealloc(frames[i]);
}
