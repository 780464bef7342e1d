// Programs short of memory, and the thread that gives memory back: limits, control groups, filters, fork, exit.
// qemu-user: does not set limits on address space and data, and does not emulate seccomp filters
// slow
// preload
// timeout: 180

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "../../Sources/CZombie/include/zg_stats_page.h"
#include "life.h"

#define MIB ((size_t)1 << 20)

// --- a process's memory and threads, read without malloc -------------------------------------------------------------

static size_t resident(void) {
    char text[128];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[got > 0 ? got : 0] = 0;
    char *second = strchr(text, ' ');
    return second ? strtoul(second, NULL, 10) * 4096 : 0;
}

// Counts the threads named `name`, or all threads if it is NULL.
static int count_threads(const char *name) {
    char entries[2048] __attribute__((aligned(16)));
    int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), count = 0;
    for (long got; (got = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;)
        for (long at = 0; at < got;) {
            struct dirent64 *entry = (struct dirent64 *)(entries + at);
            at += entry->d_reclen;
            if (entry->d_name[0] == '.') continue;
            char path[64], text[32] = "";
            snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
            int file = open(path, O_RDONLY | O_CLOEXEC);
            if (file >= 0 && read(file, text, sizeof text - 1) > 0) text[strcspn(text, "\n")] = 0;
            if (file >= 0) close(file);
            count += !name || strcmp(text, name) == 0;
        }
    close(folder);
    return count;
}

static struct zg_stats_page *own_page(void) {
    for (int i = 0; i < 2000; i++) {
        char path[64], target[128];
        snprintf(path, sizeof path, "/proc/self/fd/%d", i);
        ssize_t got = readlink(path, target, sizeof target - 1);
        target[got > 0 ? got : 0] = 0;
        if (strncmp(target, "/memfd:" ZG_STATS_NAME, 7 + strlen(ZG_STATS_NAME)) != 0) continue;
        void *page = mmap(NULL, ZG_STATS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, i, 0);
        return page == MAP_FAILED ? NULL : page;
    }
    return NULL;
}

static uint64_t counter(enum zg_counter number) {
    struct zg_stats_page *page = own_page();
    uint64_t value = page ? page->counters[number] : 0;
    if (page) munmap(page, ZG_STATS_BYTES);
    return value;
}

// --- work ------------------------------------------------------------------------------------------------------------

// Allocates `bytes` bytes in blocks of `size`, writes them, and frees them. False if an allocation fails.
static bool fill_and_free(size_t bytes, size_t size) {
    size_t count = bytes / size;
    char **blocks = mmap(NULL, count * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        all = all && blocks[i];
        if (blocks[i]) memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < count; i++) free(blocks[i]);
    munmap(blocks, count * sizeof *blocks);
    return all;
}

// Allocates and frees with few blocks in use at any time. False if an allocation fails.
static bool churn(size_t bytes, size_t size) {
    enum { HELD = 256 };
    static char *held[HELD];
    for (size_t done = 0, i = 0; done < bytes; done += size, i++) {
        free(held[i % HELD]);
        held[i % HELD] = malloc(size);
        if (!held[i % HELD]) {
            fprintf(stderr, "after %zu MiB: no block of %zu bytes, resident %zu MiB\n", done / MIB, size,
                    resident() / MIB);
            return false;
        }
        memset(held[i % HELD], 7, size);
    }
    for (int i = 0; i < HELD; i++) {
        free(held[i]);
        held[i] = NULL;
    }
    return true;
}

static bool wait_for_thread(bool there) {
    for (int i = 0; i < 100; i++) {
        if ((count_threads("zguard") == 1) == there) return true;
        usleep(50000);
    }
    return false;
}

// --- an idle process that holds much freed memory --------------------------------------------------------------------

static int be_idle(void) {
    if (!fill_and_free(200 * MIB, 8000)) return 1;
    if (resident() < 100 * MIB) return 2;
    if (!wait_for_thread(true)) return 3;
    for (int i = 0; i < 200; i++) {
        // the counter of threads excludes the runtime's own thread
        if (resident() < 60 * MIB) return counter(zg_counter_threads) == 1 ? 0 : 4;
        usleep(50000);
    }
    fprintf(stderr, "resident %zu MiB\n", resident() / MIB);
    return 5;
}

static int be_threadless(void) {
    if (!fill_and_free(200 * MIB, 8000)) return 1;
    usleep(500000);
    if (count_threads(NULL) != 1) return 2;
    return 0;
}

// zguard trim: the runtime's thread answers for an idle process.
static int answer_trim(void) {
    if (!fill_and_free(200 * MIB, 8000) || !wait_for_thread(true)) return 1;
    struct zg_stats_page *page = own_page();
    if (!page) return 2;
    for (int i = 0; !__atomic_load_n(&page->has_maintenance_thread, __ATOMIC_ACQUIRE) && i < 100; i++) usleep(10000);
    if (!page->has_maintenance_thread) return 3;
    for (int i = 0; i < 3; i++) {
        page->request_kind = zg_request_trim;
        uint32_t number = __atomic_add_fetch(&page->request, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &page->request, FUTEX_WAKE, 1000, NULL, NULL, 0);
        for (int j = 0; __atomic_load_n(&page->answer, __ATOMIC_ACQUIRE) != number; j++) {
            if (j == 500) return 4;
            usleep(10000);
        }
        if (i == 0 && page->answer_value < 50 * MIB) return 5;
    }
    return resident() < 60 * MIB ? 0 : 6;
}

static void *nap(void *unused) {
    usleep(300000);
    return unused;
}

// When the program starts a thread, the runtime also starts its own, without the usual check of the calling stack.
static int start_beside(void) {
    pthread_t thread;
    if (!fill_and_free(200 * MIB, 8000)) return 1;
    if (pthread_create(&thread, NULL, nap, NULL) != 0) return 2;
    int there = wait_for_thread(true);
    pthread_join(thread, NULL);
    return there ? 0 : 3;
}

// --- fork and exit ---------------------------------------------------------------------------------------------------

static int fork_often(void) {
    if (!fill_and_free(200 * MIB, 8000) || !wait_for_thread(true)) return 1;
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (count_threads(NULL) != 1) _exit(90);
            int result = work_with_blocks(200);
            if (i % 50 == 0) { // the child starts a thread of its own
                if (!fill_and_free(150 * MIB, 8000) || !wait_for_thread(true)) _exit(91);
                pid_t grandchild = fork();
                if (grandchild == 0) exit(count_threads(NULL) == 1 ? work_with_blocks(100) : 92);
                result |= life_wait(grandchild);
            }
            if (i % 2) exit(result);
            _exit(result);
        }
        int result = life_wait(child);
        if (result) return result;
        if (i % 20 == 0) fill_and_free(100 * MIB, 8000); // gives the runtime's thread work at the same time
    }
    return count_threads("zguard") <= 1 ? 0 : 2;
}

static int exit_now(void) { return fill_and_free(200 * MIB, 8000) && wait_for_thread(true) ? 0 : 1; }
static int exit_quick(void) { _exit(exit_now()); }

static int exit_while_busy(void) {
    if (!fill_and_free(200 * MIB, 8000) || !wait_for_thread(true)) return 1;
    fill_and_free(100 * MIB, 100);
    exit(0);
}

// The process ends with the program's last thread: the runtime's thread must not keep it alive.
static int leave_main(void) {
    pthread_t thread;
    if (!fill_and_free(200 * MIB, 8000) || !wait_for_thread(true)) return 1;
    pthread_create(&thread, NULL, nap, NULL);
    pthread_exit(NULL);
}

// A program that closes a descriptor and opens a file gets the same number, even while the runtime's thread reads
// files.
static int reuse_numbers(void) {
    if (!fill_and_free(200 * MIB, 8000) || !wait_for_thread(true)) return 1;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (int i = 0; i < 1000; i++) {
            close(0);
            if (open("/dev/null", O_RDONLY) != 0) return 2;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec < 3);
    // Closes all descriptors, as daemons do.
    syscall(SYS_close_range, 3u, ~0u, 0u);
    if (open("/dev/null", O_RDONLY) != 3) return 3;
    if (!fill_and_free(100 * MIB, 8000)) return 4;
    usleep(1000000);
    if (open("/dev/null", O_RDONLY) != 4) return 5;
    return work_with_blocks(500);
}

// --- limits ----------------------------------------------------------------------------------------------------------

static void limit(int resource, rlim_t value) {
    struct rlimit limit = {value, value};
    setrlimit(resource, &limit);
}

// Frees more bytes than the limits permit in memory, with a quarantine large enough to hold them all.
static int churn_much(void) {
    return churn(2000 * MIB, 8000) && churn(1000 * MIB, 20000) && churn(1000 * MIB, 300000) ? 0 : 1;
}
static int churn_small(void) { return churn(3000 * MIB, 1000) ? 0 : 1; }

// Freed blocks make room for blocks of other sizes, through every function that allocates.
static int change_sizes(void) {
    for (size_t size = 100; size < 2 * MIB; size = size * 5 / 2)
        if (!fill_and_free(40 * MIB, size)) return 1;
    char *block = malloc(100);
    for (size_t size = 1000; size < 30 * MIB; size *= 2)
        if (!(block = realloc(block, size))) return 2;
    free(block);
    if (!fill_and_free(40 * MIB, 5000)) return 3;
    void *aligned = NULL;
    if (posix_memalign(&aligned, 65536, 20 * MIB) != 0) return 4;
    free(aligned);
    block = calloc(20, MIB);
    if (!block) return 5;
    free(block);
    return 0;
}

// --- filters ---------------------------------------------------------------------------------------------------------

static void filter(const int *numbers, int count, uint32_t action) {
    struct sock_filter program[40];
    int at = 0;
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (int i = 0; i < count; i++) {
        program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)numbers[i], 0, 1);
        program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    }
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog whole = {(unsigned short)at, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    // The filter applies to all threads, including the runtime's.
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole) != 0) _exit(77);
}

// The kernel refuses more memory: allocations have to reuse freed blocks.
static int refuse_memory(void) {
    static char *blocks[40000];
    if (!fill_and_free(40 * MIB, 1000)) return 1;
    static const int calls[] = {SYS_mmap, SYS_mprotect, SYS_brk, SYS_mremap};
    filter(calls, 4, SECCOMP_RET_ERRNO | ENOMEM);
    for (int i = 0; i < 35000; i++) {
        blocks[i] = malloc(1000);
        if (!blocks[i]) return 2;
    }
    for (int i = 0; i < 35000; i++) free(blocks[i]);
    for (int i = 0; i < 35000; i++)
        if (!(blocks[i] = i % 2 ? malloc(1000) : realloc(malloc(1000), 1010))) return 3;
    return 0;
}

// Installs a filter that kills the process for system calls that from then on only the runtime might make.
static int be_confined(void) {
    static const int calls[] = {
        SYS_openat, SYS_prlimit64, SYS_close, SYS_clone, SYS_clone3, SYS_fcntl, SYS_socket,
#ifdef SYS_open
        SYS_open,
#endif
    };
    bool with_thread = getenv("ZG_WITH_THREAD") != NULL;
    if (with_thread && (!fill_and_free(200 * MIB, 8000) || !wait_for_thread(true))) return 1;
    filter(calls, sizeof calls / sizeof *calls, SECCOMP_RET_KILL_PROCESS);
    for (int i = 0; i < 20; i++) {
        if (!fill_and_free(100 * MIB, i % 2 ? 8000 : 3000)) return 2;
        usleep(100000);
    }
    return 0;
}

// --- control groups --------------------------------------------------------------------------------------------------

static char group[256];

static bool put(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    if (file >= 0) close(file);
    return done;
}

static void enter_group(void) {
    char number[32];
    snprintf(number, sizeof number, "%d", getpid());
    if (!put("cgroup.procs", number)) _exit(78);
}

// Keeps small blocks that would fill the group four times over if each had a page.
static int keep_small(void) {
    for (int i = 0; i < 128 * 1024; i++) {
        char *block = malloc(64);
        if (!block) return 1;
        *block = 1;
    }
    return 0;
}

// Makes a control group with a limit, in version 1 or 2 of the hierarchy. False if that is not possible.
static bool make_group(int version) {
    const char *parents[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    snprintf(group, sizeof group, "%s/zguard-test-%d", parents[version - 1], getpid());
    char controllers[512];
    snprintf(controllers, sizeof controllers, "%s/%s", parents[version - 1],
             version == 1 ? "memory.usage_in_bytes" : "cgroup.controllers");
    int file = open(controllers, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    char text[256] = "";
    if (read(file, text, sizeof text - 1) <= 0) text[0] = 0;
    close(file);
    if (version == 2 && !strstr(text, "memory")) return false;
    if (mkdir(group, 0755) != 0) return false;
    if (put(version == 1 ? "memory.limit_in_bytes" : "memory.max", "134217728")) return true;
    rmdir(group);
    return false;
}

static void check_group(int version) {
    if (!make_group(version)) {
        printf("skipped: no control group of version %d can be made\n", version);
        return;
    }
    setenv("ZGUARD_OPTIONS", "quarantine_bytes=1073741824:isolated_per_context=0", 1);
    CHECK_EQUAL(life_run_self("churn", enter_group), 0, "128 MiB for a quarantine of 1 GiB");
    setenv("ZGUARD_OPTIONS", "quarantine_bytes=1073741824:isolated_per_context=0:pressure_thread=0", 1);
    CHECK_EQUAL(life_run_self("churn", enter_group), 0, "without a thread, too");
    CHECK_EQUAL(life_run_self("small", enter_group), 0, "in small blocks");
    setenv("ZGUARD_OPTIONS", "profile=fence", 1);
    CHECK_EQUAL(life_run_self("keep", enter_group), 0, "blocks get pages of their own as far as memory reaches");
    for (int i = 0; rmdir(group) != 0 && i < 100; i++) usleep(20000);
}

// --- the modes -------------------------------------------------------------------------------------------------------

static void little_space(void) { limit(RLIMIT_AS, (rlim_t)4 << 30); }
static void little_data(void) { limit(RLIMIT_DATA, (rlim_t)200 << 20); }
// A higher limit, because memory that one size class has taken serves no other class, even if freed or unused.
static void some_data(void) { limit(RLIMIT_DATA, (rlim_t)1000 << 20); }

static const struct {
    const char *name;
    int (*run)(void);
} modes[] = {{"idle", be_idle},          {"threadless", be_threadless}, {"trim", answer_trim},
             {"beside", start_beside},   {"fork", fork_often},          {"exit", exit_now},
             {"_exit", exit_quick},      {"busy", exit_while_busy},     {"leave", leave_main},
             {"numbers", reuse_numbers}, {"churn", churn_much},         {"small", churn_small},
             {"sizes", change_sizes},    {"keep", keep_small},          {"refuse", refuse_memory},
             {"confined", be_confined}};

static void check_mode(const char *mode, const char *options, void (*before)(void), const char *what) {
    setenv("ZGUARD_OPTIONS", options, 1);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK_EQUAL(life_run_self(mode, before), 0, what);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (getenv("ZG_TIMES"))
        fprintf(stderr, "%s %.2f s\n", mode,
                (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
}

int main(int count, char **words) {
    if (count > 1) {
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
            if (strcmp(words[1], modes[i].name) == 0) return modes[i].run();
        return 76;
    }
#define PLAIN "isolated_per_context=0"
#define LARGE "isolated_per_context=0:quarantine_bytes=1073741824"
    check_mode("idle", "", NULL, "an idle process gives memory back");
    check_mode("idle", PLAIN, NULL, "without fences, too");
    check_mode("threadless", PLAIN ":pressure_thread=0", NULL, "pressure_thread=0: no thread");
    check_mode("threadless", PLAIN ":pressure=0", NULL, "pressure=0: no thread either");
    check_mode("threadless", PLAIN ":pressure_thread_bytes=1073741824", NULL, "nor where it is not worth one");
    check_mode("trim", PLAIN, NULL, "a request is answered by the thread");
    check_mode("beside", PLAIN, NULL, "a thread beside the program's");
    check_mode("fork", PLAIN, NULL, "forks with the thread alive");
    check_mode("exit", PLAIN, NULL, "exit with the thread alive");
    check_mode("_exit", PLAIN, NULL, "_exit with the thread alive");
    check_mode("busy", PLAIN, NULL, "exit while the thread works");
    check_mode("leave", PLAIN, NULL, "a main thread that leaves");
    check_mode("numbers", PLAIN, NULL, "numbers of descriptors");
    check_mode("churn", LARGE, little_space, "a limit of the address space");
    check_mode("churn", LARGE ":pressure_thread=0", little_space, "without a thread");
    check_mode("small", LARGE, little_data, "a limit of data");
    check_mode("small", LARGE ":pressure_thread=0", little_data, "without a thread");
    check_mode("small", LARGE ":pressure=0", little_data, "and where nobody watches");
    check_mode("sizes", LARGE, some_data, "blocks of all sizes");
    check_mode("refuse", LARGE, NULL, "a kernel that gives no memory");
    check_mode("refuse", LARGE ":pressure=0", NULL, "also where nobody watches");
    check_mode("confined", LARGE, NULL, "a filter that kills");
    setenv("ZG_WITH_THREAD", "1", 1);
    check_mode("confined", LARGE, NULL, "with the thread alive");
    check_group(1);
    check_group(2);
    return check_end();
}
