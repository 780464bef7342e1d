// Copies a stopped process by fork (ptrace). No state.

#define _GNU_SOURCE
#include "zg_unwind_snapshot.h"

#include <errno.h>

#if defined(__x86_64__)

#include <elf.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

// Indices of words in the kernel's struct user_regs_struct, and of the signal mask behind it (ZG_SNAPSHOT_MASK).
enum { RAX = 10, ORIGINAL_RAX = 15, RIP = 16, CS = 17, FLAGS = 18, REGISTERS = 27, MASK = REGISTERS, WORDS = 28 };
enum { EVENT_STOP = 128, CALL_STOP = SIGTRAP | 0x80, TRAP_FLAG = 0x100, CODE_OF_64_BITS = 0x33, CALL_BYTES = 2 };
enum { GET_RSEQ_CONFIGURATION = 0x420f, RSEQ_SECTION = 8 }; // offset of rseq_cs in struct rseq

struct run {
    int thread, helper, copy;
    int signal; // signal that arrived during the run; 0: none
    bool is_at_signal;
    int64_t deadline;
};

struct stop {
    bool has_ended;
    int status; // exit status; 0 if a signal ended the process
    int signal, event;
};

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

// Waits for the next stop or the end of a traced thread. `leaves_end`: does not reap the thread, because other code
// waits for its end.
static int next_stop(int tid, int64_t deadline, bool leaves_end, struct stop *stop) {
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL) != 0) return -errno;
        if (info.si_pid) {
            bool has_stopped = info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED;
            *stop = (struct stop){.has_ended = !has_stopped,
                                  .status = info.si_code == CLD_EXITED ? info.si_status : 0,
                                  .signal = has_stopped ? info.si_status & 0xff : 0,
                                  .event = has_stopped ? info.si_status >> 8 : 0};
            int which = has_stopped ? WSTOPPED : WEXITED;
            if (has_stopped || !leaves_end) waitid(P_PID, (id_t)tid, &info, which | WNOHANG | __WALL);
            return 0;
        }
        if (now_ms() >= deadline) return -ETIMEDOUT;
        const struct timespec pause = {.tv_nsec = 20000};
        nanosleep(&pause, NULL);
    }
}

static int registers_of(int tid, uint64_t registers[REGISTERS]) {
    struct iovec vector = {registers, REGISTERS * sizeof *registers};
    if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &vector) != 0) return -errno;
    return vector.iov_len == REGISTERS * sizeof *registers ? 0 : -EINVAL;
}

static int set_registers(int tid, uint64_t registers[REGISTERS]) {
    struct iovec vector = {registers, REGISTERS * sizeof *registers};
    return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &vector) != 0 ? -errno : 0;
}

bool zg_snapshot_may_use(int tid) {
    uint64_t registers[REGISTERS];
    if (registers_of(tid, registers) != 0 || registers[CS] != CODE_OF_64_BITS) return false;
    if ((int64_t)registers[ORIGINAL_RAX] >= 0) return true; // a restartable sequence contains no system call
    struct {
        uint64_t place;
        uint32_t bytes, signature, flags, padding;
    } rseq = {0};
    if (ptrace((enum __ptrace_request)GET_RSEQ_CONFIGURATION, tid, sizeof rseq, &rseq) < 0) return false;
    if (!rseq.place) return true;
    errno = 0;
    return ptrace(PTRACE_PEEKDATA, tid, rseq.place + RSEQ_SECTION, NULL) == 0 && !errno;
}

// Changes saved registers so that an interrupted system call is restarted, as the kernel restarts it if there is no
// signal. The snapshot code resumes the thread with these registers if zguard dies. Error numbers are the kernel's
// (include/linux/errno.h).
static void restart_call(uint64_t registers[REGISTERS]) {
    enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };
    if ((int64_t)registers[ORIGINAL_RAX] < 0) return;
    switch (-(int64_t)registers[RAX]) {
    case EINTR:
    case ERESTARTSYS:
    case ERESTARTNOINTR:
    case ERESTARTNOHAND: registers[RAX] = registers[ORIGINAL_RAX]; break;
    case ERESTART_RESTARTBLOCK: registers[RAX] = SYS_restart_syscall; break;
    default: return;
    }
    registers[RIP] -= CALL_BYTES;
}

static int write_words(int tid, uint64_t place, const uint64_t words[WORDS]) {
    for (int i = 0; i < WORDS; i++)
        if (ptrace(PTRACE_POKEDATA, tid, place + (uint64_t)i * sizeof *words, words[i]) != 0) return -errno;
    return 0;
}

// Lets the helper run until it has forked the copy. Detaches from the helper, and keeps the copy stopped.
static int run_helper(struct run *run) {
    struct stop stop;
    unsigned long copy;
    int error = next_stop(run->helper, run->deadline, false, &stop);
    while (!error && !stop.has_ended && stop.event != PTRACE_EVENT_CLONE) {
        if (ptrace(PTRACE_CONT, run->helper, NULL, NULL) != 0) return -errno;
        error = next_stop(run->helper, run->deadline, false, &stop);
    }
    if (error) return error;
    if (stop.has_ended) {
        run->helper = 0;
        return stop.status ? -stop.status : -EAGAIN;
    }
    if (ptrace(PTRACE_GETEVENTMSG, run->helper, NULL, &copy) != 0) return -errno;
    run->copy = (int)copy;
    error = next_stop(run->copy, run->deadline, false, &stop);
    if (!error && stop.has_ended) {
        run->copy = 0;
        return -ESRCH;
    }
    if (!error && ptrace(PTRACE_SETOPTIONS, run->copy, NULL, PTRACE_O_EXITKILL) != 0) error = -errno;
    if (error) return error;
    if (ptrace(PTRACE_DETACH, run->helper, NULL, NULL) != 0) return -errno;
    run->helper = 0; // the thread reaps it
    return 0;
}

static void end_helper(struct run *run) {
    struct stop stop;
    if (!run->helper) return;
    kill(run->helper, SIGKILL);
    enum { LONGEST_MS = 10000 };
    for (int64_t deadline = now_ms() + LONGEST_MS; next_stop(run->helper, deadline, false, &stop) == 0;)
        if (stop.has_ended) break;
    run->helper = 0;
}

// Lets the thread run up to its second change of the signal mask, which ends the snapshot code, or up to a signal.
static int run_thread(struct run *run) {
    int error = 0, changes_of_mask = 0;
    long call = -1;
    for (bool is_in_call = false;;) {
        struct stop stop;
        if (ptrace(PTRACE_SYSCALL, run->thread, NULL, NULL) != 0) return -errno;
        int result = next_stop(run->thread, run->deadline, true, &stop);
        if (result == -ETIMEDOUT && run->helper) {
            end_helper(run);
            run->deadline += 1000;
            error = result;
            result = next_stop(run->thread, run->deadline, true, &stop);
        }
        if (result) return result;
        if (stop.has_ended) return -ESRCH;
        if (stop.event == PTRACE_EVENT_CLONE) {
            unsigned long helper;
            if (ptrace(PTRACE_GETEVENTMSG, run->thread, NULL, &helper) != 0) return -errno;
            run->helper = (int)helper;
            error = run_helper(run);
            if (error) end_helper(run);
        } else if (stop.signal == CALL_STOP && !stop.event) {
            uint64_t registers[REGISTERS];
            if ((result = registers_of(run->thread, registers)) != 0) return result;
            is_in_call = !is_in_call;
            if (is_in_call) call = (long)registers[ORIGINAL_RAX];
            if (is_in_call || call == SYS_wait4) continue;
            if (call == SYS_rt_sigprocmask && ++changes_of_mask == 2) return error ? error : run->copy ? 0 : -ECHILD;
            if (call == SYS_clone && (int64_t)registers[RAX] < 0) error = (int)(int64_t)registers[RAX];
        } else if (stop.event != EVENT_STOP) {
            // Do not deliver a SIGSYS that a system call of the snapshot code raised: the program may handle SIGSYS to
            // emulate its own system calls.
            if (stop.signal != SIGSYS) run->signal = stop.signal;
            run->is_at_signal = true;
            return -EINTR;
        }
    }
}

// Stops the thread where the kernel decides whether to restart a system call, and restores the thread's state there.
static int restore(struct run *run, uint64_t registers[REGISTERS], uint64_t mask, uint64_t words) {
    static const uint64_t none[WORDS];
    struct stop stop = {.event = EVENT_STOP};
    if (!run->is_at_signal) {
        if (ptrace(PTRACE_INTERRUPT, run->thread, NULL, NULL) != 0) return -errno;
        // The thread stops before its next instruction, because PTRACE_INTERRUPT is pending.
        if (ptrace(PTRACE_CONT, run->thread, NULL, NULL) != 0 && errno != ESRCH) return -errno;
        enum { LONGEST_MS = 10000 };
        int error = next_stop(run->thread, now_ms() + LONGEST_MS, true, &stop);
        if (error || stop.has_ended) return error ? error : -ESRCH;
        if (stop.event != EVENT_STOP) run->signal = stop.signal;
    }
    // Set the mask before the registers: if zguard dies in between, the snapshot code restores the mask itself.
    ptrace(PTRACE_SETSIGMASK, run->thread, sizeof mask, &mask);
    int error = set_registers(run->thread, registers);
    ptrace(PTRACE_SETOPTIONS, run->thread, NULL, NULL);
    // Clear the saved registers: a later search for references would take them for pointers.
    if (!error) write_words(run->thread, words, none);
    return error;
}

int zg_snapshot_make(int tid, uint64_t code, uint64_t words, int milliseconds, int *copy, int *signal) {
    struct run run = {.thread = tid, .deadline = now_ms() + milliseconds};
    uint64_t registers[REGISTERS], kept[WORDS], other[REGISTERS], mask;
    int error = registers_of(tid, registers);
    if (error) return error;
    if (ptrace(PTRACE_GETSIGMASK, tid, sizeof mask, &mask) != 0) return -errno;
    __builtin_memcpy(kept, registers, sizeof registers);
    restart_call(kept);
    kept[MASK] = mask;
    if ((error = write_words(tid, words, kept)) != 0) return error;
    if (ptrace(PTRACE_SETOPTIONS, tid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE) != 0) return -errno;
    __builtin_memcpy(other, registers, sizeof registers);
    other[RIP] = code;
    other[RAX] = 0;
    other[ORIGINAL_RAX] = UINT64_MAX; // no system call to restart
    other[FLAGS] &= ~(uint64_t)TRAP_FLAG;
    if ((error = set_registers(tid, other)) != 0) return error;
    // Block all signals but SIGSYS, because some may be pending. Do so after setting the registers: from then on, the
    // snapshot code restores the mask if zguard dies.
    const uint64_t blocked = ~(UINT64_C(1) << (SIGSYS - 1));
    ptrace(PTRACE_SETSIGMASK, tid, sizeof blocked, &blocked);
    error = run_thread(&run);
    end_helper(&run);
    int restored = restore(&run, registers, mask, words);
    *signal = run.signal;
    if (!error) error = restored;
    if (error && run.copy) zg_snapshot_end(run.copy);
    if (!error) *copy = run.copy;
    return error;
}

// Asks ptrace, because a killed process leaves its ptrace stop at once. waitpid would report the process's end only
// later, when its memory has been freed.
bool zg_snapshot_exists(int copy) {
    errno = 0;
    ptrace(PTRACE_PEEKUSER, copy, RIP * sizeof(uint64_t), NULL);
    return errno == 0;
}

void zg_snapshot_end(int copy) {
    int status;
    kill(copy, SIGKILL);
    while (waitpid(copy, &status, __WALL) == copy && !WIFEXITED(status) && !WIFSIGNALED(status)) {
    }
}

// Starts a process with the helper's flags. It ends at once, because it shares this process's stack.
static long try_helper(void) {
    enum { FLAGS_OF_HELPER = 0x700 };
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    long result;
    __asm__ volatile("syscall\n test %%eax, %%eax\n jnz 1f\n xor %%edi, %%edi\n mov %[end], %%eax\n syscall\n 1:"
                     : "=a"(result)
                     : "a"(SYS_clone), "D"((long)FLAGS_OF_HELPER), "S"(0L), "d"(0L), "r"(r10),
                       "r"(r8), [end] "i"(SYS_exit_group)
                     : "rcx", "r11", "memory", "cc");
    return result;
}

static _Noreturn void try_calls(void) {
    int status;
    uint64_t mask = 0;
    signal(SIGSYS, SIG_DFL);
    bool pass = syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof mask) == 0 &&
                syscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, &status, 0, 0, 0) == 0;
    long helper = pass ? try_helper() : -1;
    pass = pass && helper > 0 && syscall(SYS_wait4, helper, NULL, __WALL, NULL) == helper &&
           syscall(SYS_close_range, 0u, ~0u, 2u) == 0 && syscall(SYS_setsid) >= 0;
    long copy = pass ? syscall(SYS_clone, 0, NULL, NULL, NULL, 0) : -1;
    _exit(copy < 0);
}

bool zg_snapshot_calls_pass(void) {
    int status;
    pid_t child = fork();
    if (!child) try_calls();
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

#else

bool zg_snapshot_may_use(int tid) {
    (void)tid;
    return false;
}

int zg_snapshot_make(int tid, uint64_t code, uint64_t words, int milliseconds, int *copy, int *signal) {
    (void)tid, (void)code, (void)words, (void)milliseconds, (void)copy, (void)signal;
    return -ENOSYS;
}

bool zg_snapshot_exists(int copy) {
    (void)copy;
    return false;
}

void zg_snapshot_end(int copy) { (void)copy; }

bool zg_snapshot_calls_pass(void) { return false; }

#endif
