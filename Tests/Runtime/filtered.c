// The program still computes the right result if a seccomp filter makes system calls fail with EPERM.
// qemu-user: seccomp filters are not emulated
// preload

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "life.h"

static int refused; // number of the system call; negative for all of `all_refused`
static const int all_refused[] = {SYS_process_vm_readv, SYS_memfd_create, SYS_mremap, SYS_madvise,
                                  SYS_sched_yield,      SYS_readlinkat,   SYS_prctl,  SYS_fcntl};

static void filter(void) {
    struct sock_filter program[32];
    int at = 0;
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (int i = 0; i < (int)(sizeof all_refused / sizeof *all_refused); i++) {
        if (refused >= 0 && refused != all_refused[i]) continue;
        program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)all_refused[i], 0, 1);
        program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog whole = {(unsigned short)at, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) != 0) _exit(77);
}

static void *work_in_thread(void *unused) {
    (void)unused;
    return (void *)(uint64_t)work_with_blocks(500);
}

static int work_everywhere(void) {
    pthread_t thread;
    void *result = (void *)1;
    if (work_with_blocks(3000)) return 1;
    if (pthread_create(&thread, NULL, work_in_thread, NULL) != 0) return 2;
    pthread_join(thread, &result);
    if (result) return 3;
    // Large blocks move their pages if mremap is allowed.
    unsigned char *block = malloc(2 << 20);
    memset(block, 0x5a, 2 << 20);
    block = realloc(block, 6 << 20);
    for (size_t i = 0; i < 2 << 20; i += 4099)
        if (block[i] != 0x5a) return 4;
    free(block);
    block = calloc(1, 2 << 20);
    for (size_t i = 0; i < 2 << 20; i += 4099)
        if (block[i]) return 5;
    free(block);
    for (int i = 0; i < 40; i++) {
        memset(block = calloc(1, 900000), 1, 900000);
        free(block);
        block = calloc(1, 900000);
        for (size_t j = 0; j < 900000; j += 997)
            if (block[j]) return 6;
        free(block);
    }
    pid_t child = fork();
    if (child == 0) _exit(work_with_blocks(200));
    return life_wait(child) ? 7 : 0;
}

// The program installs the filter itself, after its start.
static int filter_later(void) {
    if (work_with_blocks(100)) return 20;
    refused = -1;
    filter();
    return work_everywhere();
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    if (strcmp(mode, "work") == 0) return work_everywhere();
    if (strcmp(mode, "later") == 0) return filter_later();
    static const char *const names[] = {
        "without process_vm_readv", "without memfd_create", "without mremap", "without madvise",
        "without sched_yield",      "without readlinkat",   "without prctl",  "without fcntl"};
    for (int i = 0; i < (int)(sizeof all_refused / sizeof *all_refused); i++) {
        refused = all_refused[i];
        CHECK_EQUAL(life_run_self("work", filter), 0, names[i]);
    }
    refused = -1;
    CHECK_EQUAL(life_run_self("work", filter), 0, "without any of them");
    CHECK_EQUAL(life_run_self("later", NULL), 0, "refused while the program runs");
    return check_end();
}
