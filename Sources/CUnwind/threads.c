// Stops and resumes threads of another process (ptrace). No state.

#define _GNU_SOURCE
#include "zg_unwind_threads.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

int zg_thread_seize(int tid) {
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) return -errno;
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0) return 0;
    int error = errno;
    ptrace(PTRACE_DETACH, tid, NULL, NULL);
    return -error;
}

// Leaves an exit status in place: if the thread is a child of this process, other code waits for it.
int zg_thread_has_stopped(int tid, int *signal) {
    enum { EVENT_STOP = 128 };
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOHANG | __WALL) != 0) return -errno;
    if (!info.si_pid) return 0;
    *signal = info.si_status >> 8 == EVENT_STOP ? 0 : info.si_status & 0x7f;
    return 1;
}

enum { REGISTER_WORDS = 64 }; // enough for every supported processor

int zg_thread_registers(int tid, uint64_t registers[ZG_THREAD_REGISTERS]) {
    uint64_t bytes[REGISTER_WORDS];
    struct iovec vector = {bytes, sizeof bytes};
    if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &vector) != 0) return -errno;
    return zg_thread_registers_of(bytes, vector.iov_len, registers) ? 0 : -EINVAL;
}

int zg_thread_vectors(int tid, void *bytes, size_t count) {
    struct iovec vector = {bytes, count};
    // On x86-64, NT_X86_XSTATE includes the upper halves of vectors, if the processor has them.
    if (ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &vector) == 0) return (int)vector.iov_len;
    vector = (struct iovec){bytes, count};
    return ptrace(PTRACE_GETREGSET, tid, NT_FPREGSET, &vector) == 0 ? (int)vector.iov_len : -errno;
}

static void mend_call(int tid) {
    uint64_t bytes[REGISTER_WORDS];
    struct iovec vector = {bytes, sizeof bytes};
    if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &vector) == 0 && zg_thread_restart_call(bytes, vector.iov_len))
        ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &vector);
}

int zg_thread_detach(int tid, int signal) {
    mend_call(tid);
    return ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)signal) == 0 ? 0 : -errno;
}

int zg_thread_release_next(void) {
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 || !info.si_pid) return 0;
    int tid = info.si_pid, signal = 0;
    if (zg_thread_has_stopped(tid, &signal) > 0) return zg_thread_detach(tid, signal) == 0;
    return zg_thread_reap(tid);
}

int zg_thread_reap(int tid) {
    // Wait for exits only: a thread whose stop is reaped here would stay stopped.
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | __WALL) != 0 || info.si_pid != 0;
}
