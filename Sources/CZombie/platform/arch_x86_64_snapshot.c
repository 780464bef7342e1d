// x86-64: code with which zguard copies the process (fork) while it holds all threads stopped by ptrace. The runtime
// never calls the code. No lock; keeps the stack untouched.

#if defined(__x86_64__)

#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "include/zg_stats_page.h"
#include "platform/arch.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

// Offsets in zg_arch_snapshot_words: the kernel's struct user_regs_struct, then the words of zg_stats_page.h.
#define R15 0
#define R14 8
#define R13 16
#define R12 24
#define RBP 32
#define RBX 40
#define R11 48
#define R10 56
#define R9 64
#define R8 72
#define RAX 80
#define RCX 88
#define RDX 96
#define RSI 104
#define RDI 112
#define RIP 128
#define FLAGS 144
#define MASK 216
#define BLOCKED 224
#define IS_REAPER 232
// Assembly code cannot use the headers' expressions.
#define SET_MASK 2            // SIG_SETMASK
#define GET_REAPER 37         // PR_GET_CHILD_SUBREAPER
#define HELPER_FLAGS 0x700    // CLONE_VM | CLONE_FS | CLONE_FILES, exit signal 0
#define WAIT_FLAGS 0x40000000 // __WALL
#define UNSHARE 2             // CLOSE_RANGE_UNSHARE
_Static_assert(ZG_SNAPSHOT_MASK * 8 == MASK && ZG_SNAPSHOT_BLOCKED * 8 == BLOCKED && IS_REAPER < ZG_SNAPSHOT_WORDS * 8,
               "places of zg_stats_page.h");
_Static_assert(SIG_SETMASK == SET_MASK && PR_GET_CHILD_SUBREAPER == GET_REAPER && __WALL == WAIT_FLAGS &&
                   (CLONE_VM | CLONE_FS | CLONE_FILES) == HELPER_FLAGS,
               "numbers of the headers");

__attribute__((used, visibility("hidden"))) uint64_t zg_arch_snapshot_words[ZG_SNAPSHOT_WORDS] = {
    // SIGSYS stays unblocked: the kernel resets the handler of a blocked SIGSYS where signals emulate system calls
    // (PR_SET_SYSCALL_USER_DISPATCH).
    [ZG_SNAPSHOT_BLOCKED] = ~(UINT64_C(1) << (SIGSYS - 1)),
};

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define CALL(number) "mov $" TEXT(number) ", %eax\n syscall\n"
#define SET(number, name) "mov $" TEXT(number) ", %" name "\n"
#define CLEAR(name) "xor %" name ", %" name "\n"
#define WORD(place) TEXT(place) "(%rbx)"
#define ADDRESS(place, name) "lea " WORD(place) ", %" name "\n"
#define RESTORE(place, name) "mov " WORD(place) ", %" name "\n"

// zguard sets the program counter of a stopped thread to this code, and restores the thread's registers before it
// detaches. If zguard dies meanwhile, the kernel resumes the thread here, and the code itself restores the registers
// from zg_arch_snapshot_words. The code uses no stack, because the thread's stack may be full.
//
// The thread starts a helper, a process that shares memory and descriptors. The helper first closes its copies of the
// descriptors, because the peer of a socket waits until the last descriptor is closed. Then it leaves the process group
// and forks the copy. zguard keeps the copy stopped from its first instruction on; without zguard the copy ends. The
// helper ends at once and is reaped here, so that the copy is a child of init: the program has no child that it did not
// make. Neither child raises a signal when it ends (exit signal 0).
// clang-format off
__asm__(".text\n"
        ".p2align 4\n"
        ".globl zg_arch_snapshot\n"
        ".hidden zg_arch_snapshot\n"
        ".type zg_arch_snapshot, @function\n"
        "zg_arch_snapshot:\n"
        "  lea zg_arch_snapshot_words(%rip), %rbx\n"
        SET(SET_MASK, "edi") ADDRESS(BLOCKED, "rsi") CLEAR("edx") SET(8, "r10d") CALL(SYS_rt_sigprocmask)
        // Make no copy if the process is a subreaper: the copy would become its child.
        SET(GET_REAPER, "edi") ADDRESS(IS_REAPER, "rsi") CLEAR("edx") CLEAR("r10d") CLEAR("r8d") CALL(SYS_prctl)
        "  test %eax, %eax\n"
        "  jnz 1f\n"
        "  cmpl $0, " WORD(IS_REAPER) "\n"
        "  jne 1f\n"
        SET(HELPER_FLAGS, "edi") CLEAR("esi") CLEAR("edx") CLEAR("r10d") CLEAR("r8d") CALL(SYS_clone)
        "  test %eax, %eax\n"
        "  js 1f\n"
        "  jz 2f\n"
        "  mov %eax, %edi\n"
        CLEAR("esi") SET(WAIT_FLAGS, "edx") CLEAR("r10d") CALL(SYS_wait4)
        "1:\n"
        SET(SET_MASK, "edi") ADDRESS(MASK, "rsi") CLEAR("edx") SET(8, "r10d") CALL(SYS_rt_sigprocmask)
        // Restore the flags without a stack: direction by std, overflow by an addition, the others by sahf.
        "  cld\n"
        "  testl $0x400, " WORD(FLAGS) "\n"
        "  jz 3f\n"
        "  std\n"
        "3:\n"
        "  mov " WORD(FLAGS) ", %ecx\n"
        "  mov %ecx, %eax\n"
        "  mov %al, %ah\n"
        "  shr $11, %ecx\n"
        "  and $1, %ecx\n"
        "  mov %cl, %al\n"
        "  add $0x7f, %al\n"
        "  sahf\n"
        RESTORE(R15, "r15") RESTORE(R14, "r14") RESTORE(R13, "r13") RESTORE(R12, "r12") RESTORE(RBP, "rbp")
        RESTORE(R11, "r11") RESTORE(R10, "r10") RESTORE(R9, "r9") RESTORE(R8, "r8") RESTORE(RAX, "rax")
        RESTORE(RCX, "rcx") RESTORE(RDX, "rdx") RESTORE(RSI, "rsi") RESTORE(RDI, "rdi") RESTORE(RBX, "rbx")
        "  jmp *zg_arch_snapshot_words+" TEXT(RIP) "(%rip)\n"
        // The helper.
        "2:\n"
        CLEAR("edi") SET(-1, "esi") SET(UNSHARE, "edx") CALL(SYS_close_range)
        "  test %eax, %eax\n"
        "  jnz 4f\n"
        CALL(SYS_setsid)
        CLEAR("edi") CLEAR("esi") CLEAR("edx") CLEAR("r10d") CLEAR("r8d") CALL(SYS_clone)
        "  test %eax, %eax\n"
        "  cmovg %edi, %eax\n"
        // The helper exits with an error number. The copy runs this code only if zguard is gone.
        "4:\n"
        "  mov %eax, %edi\n"
        "  neg %edi\n"
        CALL(SYS_exit_group)
        "  hlt\n"
        ".size zg_arch_snapshot, .-zg_arch_snapshot\n");
// clang-format on

#endif
