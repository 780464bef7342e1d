// Unwinds the stack of another thread of this process. The kernel forbids tracing threads of one's own process, so a
// helper process that shares this process's memory (CLONE_VM) does the tracing, and exits before the caller continues.
// The stop affects system calls and signals like any ptrace stop: sleeps continue. Technique: LeakSanitizer's
// StopTheWorld (compiler-rt).

#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "zg_unwind_threads.h"

struct look {
    int tid, microseconds, result;
    uint32_t may_begin;
    zg_thread_unwind *unwind;
    uint64_t *frames;
    int most;
};

static void pause_shortly(void) {
    const struct timespec step = {.tv_nsec = 100000};
    syscall(SYS_nanosleep, &step, NULL);
}

// Runs in the helper process, with the thread-local storage of the thread that cloned it. This code may write errno,
// because that thread waits in the kernel meanwhile. Calls no libc function that locks or allocates.
static int look_from_outside(void *argument) {
    struct look *look = argument;
    enum { STEP = 100 };
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (!__atomic_load_n(&look->may_begin, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &look->may_begin, FUTEX_WAIT, 0, NULL, NULL, 0);
    look->result = zg_thread_seize(look->tid);
    if (look->result < 0) return 0;
    int signal = 0, stopped = 0;
    for (int waited = 0; !stopped && waited < look->microseconds; waited += STEP) {
        stopped = zg_thread_has_stopped(look->tid, &signal);
        if (!stopped) pause_shortly();
    }
    // A thread that has not stopped in time is detached when this helper process exits.
    look->result = stopped < 0 ? stopped : stopped ? 0 : -ETIMEDOUT;
    if (stopped <= 0) return 0;
    uint64_t registers[ZG_THREAD_REGISTERS];
    look->result = zg_thread_registers(look->tid, registers);
    if (look->result == 0)
        look->result = (int)look->unwind(registers, registers[ZG_THREAD_PC], look->frames, (uint64_t)look->most);
    zg_thread_detach(look->tid, signal);
    return 0;
}

int zg_thread_stack(int tid, int microseconds, zg_thread_unwind *unwind, uint64_t *frames, int most) {
    enum { STACK_BYTES = 256 << 10 };
    struct look look = {tid, microseconds, 0, 0, unwind, frames, most};
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) return -errno;
    // Block all signals, so that no handler of the program runs in the helper process.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int process = clone(look_from_outside, stack + STACK_BYTES, CLONE_VM | CLONE_FS | CLONE_FILES, &look);
    if (process < 0) look.result = -errno;
    if (process > 0) {
        // Yama's ptrace_scope may allow only ancestors to trace: allow the helper process. EINVAL without Yama.
        syscall(SYS_prctl, PR_SET_PTRACER, process, 0, 0, 0);
        __atomic_store_n(&look.may_begin, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &look.may_begin, FUTEX_WAKE, 1, NULL, NULL, 0);
        while (syscall(SYS_wait4, process, NULL, __WALL, NULL) < 0 && errno == EINTR) {
        }
        syscall(SYS_prctl, PR_SET_PTRACER, 0, 0, 0, 0);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    munmap(stack, STACK_BYTES);
    return look.result;
}
