// Executes a program under a seccomp filter, as systemd does for services (Tests/Robustness/filters.py).
// usage: launcher ANSWER LIST PROGRAM …    ANSWER: the effect of calls outside the list: "kill" or "errno";
// LIST: "service": @system-service of systemd 252; "start": only calls needed to start a program and to allocate
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int start_calls[] = {
#ifdef SYS_access
    SYS_arch_prctl, SYS_access,       SYS_readlink,
#endif
    SYS_execve,     SYS_brk,          SYS_mmap,     SYS_faccessat, SYS_openat,          SYS_fstat,
    SYS_newfstatat, SYS_close,        SYS_read,     SYS_pread64,   SYS_set_tid_address, SYS_set_robust_list,
    SYS_rseq,       SYS_mprotect,     SYS_write,    SYS_prlimit64, SYS_munmap,          SYS_getrandom,
    SYS_exit_group, SYS_rt_sigreturn, SYS_futex};

// System calls outside @system-service, without those that only older architectures have.
static const int not_for_services[] = {SYS_ptrace,
                                       SYS_process_madvise + 100000,
                                       SYS_mincore,
                                       SYS_pidfd_getfd,
                                       SYS_perf_event_open,
                                       SYS_bpf,
                                       SYS_mount,
                                       SYS_umount2,
                                       SYS_reboot,
                                       SYS_swapon,
                                       SYS_swapoff,
                                       SYS_init_module,
                                       SYS_finit_module,
                                       SYS_delete_module,
                                       SYS_kexec_load,
                                       SYS_settimeofday,
                                       SYS_clock_settime,
                                       SYS_adjtimex,
                                       SYS_clock_adjtime,
                                       SYS_acct,
                                       SYS_chroot,
                                       SYS_pivot_root,
                                       SYS_quotactl,
                                       SYS_sethostname,
                                       SYS_setdomainname,
                                       SYS_syslog,
                                       SYS_vhangup,
                                       SYS_kcmp + 100000,
                                       SYS_open_by_handle_at,
                                       SYS_fanotify_init,
                                       SYS_lookup_dcookie};

static int is_in(int number, const int *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (list[i] == number) return 1;
    return 0;
}

int main(int count, char **words) {
    enum { MOST = 480 };
    struct sock_filter program[2 * MOST + 2];
    unsigned short at = 0;
    if (count < 4) return 2;
    unsigned answer = strcmp(words[1], "kill") ? SECCOMP_RET_ERRNO | 1 : SECCOMP_RET_KILL_PROCESS;
    int is_service = !strcmp(words[2], "service");
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (int number = 0; number < MOST; number++) {
        int passes = is_service ? !is_in(number, not_for_services, sizeof not_for_services / sizeof *not_for_services)
                                : is_in(number, start_calls, sizeof start_calls / sizeof *start_calls);
        if (!passes) continue;
        program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
        program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
    struct sock_fprog whole = {at, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole)) {
        perror("launcher: seccomp");
        return 3;
    }
    execv(words[3], words + 3);
    perror("launcher: execv");
    return 4;
}
