// A signal handler frees a block and writes it with an SVE store, while the interrupted code uses SVE registers.
// finding: use-after-free
// access: write
// block: size=4096 offset=8 state=retired language=unknown
// stack-access: ~interrupted
// stack-free: ~interrupted
// stack-alloc: make_block
// options: profile=fence
// exit: 139
// confidence: exact
// processor: aarch64 (its vectors)

#include "../bug.h"
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <ucontext.h>

enum {
    BYTES = 4096,
    HAS_VECTORS = 1 << 22 /* HWCAP_SVE */,
    VECTORS_SET = 50 /* PR_SVE_SET_VL */,
    MOST = 256,
    BREAK_BYTES = 4
};

static char *block;
static int has_vectors;

FRAME char *make_block(void) {
    char *made = malloc(BYTES);
    KEEP_FRAME();
    return made;
}

FRAME void write_vector(char *to) {
    if (has_vectors)
        __asm__ volatile(".arch_extension sve\n ptrue p0.b\n st1b { z0.b }, p0, [%0]" ::"r"(to) : "memory");
    else *(volatile char *)to = 1;
    KEEP_FRAME();
}

static void on_break(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
#ifndef FIXED
    free(block);
#endif
    write_vector(block + 8);
    ((ucontext_t *)context)->uc_mcontext.pc += BREAK_BYTES;
}

// Raises SIGTRAP with a brk instruction: a system call would discard the contents of the SVE registers.
FRAME void interrupted(void) {
    if (has_vectors) __asm__ volatile(".arch_extension sve\n ptrue p0.b\n dup z31.b, #5\n setffr" ::: "v31");
    __asm__ volatile("brk #1" ::: "memory");
    KEEP_FRAME();
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_break, .sa_flags = SA_SIGINFO};
    has_vectors = (getauxval(AT_HWCAP) & HAS_VECTORS) != 0;
    if (has_vectors) prctl(VECTORS_SET, MOST, 0, 0, 0);
    sigaction(SIGTRAP, &action, NULL);
    block = make_block();
    interrupted();
    puts("done");
#ifdef FIXED
    free(block);
#endif
    return 0;
}
