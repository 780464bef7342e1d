// With a (fake) control group near its limit, windows get no more memory, and freed blocks in windows are reused.
// link: runtime
// libs: -pthread
// timeout: 120

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "heap_calls.h"
#include "limits/maintenance.h"
#include "pages/conditions.h"
#include "pages/window.h"
#include "platform/os.h"
#include "process/ready.h"
#include "process/thread_entry.h"

enum { HELD = 30000, ROUNDS = 12, THREADS = 4, TURNS = 20000 };
#define LIMIT (UINT64_C(64) << 20)

static char tree[64] = "/tmp/zguard-narrow-XXXXXX";

static void put(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", tree, name);
    for (char *at = path + strlen(tree) + 1; *at; at++)
        if (*at == '/') {
            *at = 0;
            mkdir(path, 0700);
            *at = '/';
        }
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text)) CHECK(false, "the fake tree is written");
    if (file >= 0) close(file);
}

// Sets the memory usage of the control group, in thousandths of its limit.
static void use(unsigned permille) {
    char text[64];
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)(LIMIT / 1000 * permille));
    put("/sys/fs/cgroup/g/memory.current", text);
}

static void make_tree(void) {
    put("/proc/self/status", "Name:\tself\nState:\tR (running)\nThreads:\t1\nSeccomp:\t0\nSeccomp_filters:\t0\n");
    put("/proc/self/cgroup", "0::/g\n");
    put("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("/proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n");
    put("/sys/fs/cgroup/g/memory.max", "max\n");
    put("/sys/fs/cgroup/g/memory.high", "67108864\n");
    put("/sys/fs/cgroup/g/memory.stat", "inactive_file 0\n");
    use(100);
}

static __attribute__((noinline)) void poll_now(void) {
    struct zg_thread *thread = zg_thread_enter(HEAP_FRAME);
    zg_maintenance_check_now(thread);
    zg_thread_leave(thread);
    __asm__ volatile("" ::: "memory");
}

static char *blocks[HELD];
static uint32_t state = 1;
static uint32_t next(void) { return state = state * 1664525 + 1013904223; }

static char *make(void) {
    size_t size = 300 + next() / 65536 % 300;
    char *block = heap_allocate(size, 16, false);
    memset(block, 'x', size);
    return block;
}

static void churn(void) {
    for (int i = 0; i < HELD; i++) {
        if (next() / 65536 % 3) continue;
        heap_free(blocks[i]);
        blocks[i] = make();
    }
}

// Returns the memory of the process in KiB: proportional anonymous and shared memory, and page tables.
static long taken(void) {
    char line[256];
    long total = 0;
    const char *const files[] = {"/proc/self/smaps_rollup", "/proc/self/status"};
    const char *const names[] = {"Pss_Anon:", "Pss_Shmem:", "VmPTE:"};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(files[i], "r");
        while (file && fgets(line, sizeof line, file))
            for (int j = 0; j < 3; j++)
                if (strncmp(line, names[j], strlen(names[j])) == 0) total += atol(line + strlen(names[j]));
        if (file) fclose(file);
    }
    return total;
}

static void check_one_thread(void) {
    for (int i = 0; i < HELD; i++) blocks[i] = make();
    poll_now();
    CHECK(!zg_conditions_is_narrow(), "a tenth of the limit");
    uint64_t windows = zg_window_bytes();
    CHECK(windows > HELD * UINT64_C(300), "most blocks lie in windows");
    use(700);
    poll_now();
    CHECK(zg_conditions_is_narrow(), "seven tenths of it");
    churn();
    long before = taken();
    for (int round = 0; round < ROUNDS; round++) churn();
    long after = taken();
    printf("%ld KiB before, %ld after; windows %llu KiB\n", before, after,
           (unsigned long long)zg_window_bytes() / 1024);
    CHECK_EQUAL(zg_window_bytes(), windows, "windows get no more memory");
    CHECK(after < before + before / 8, "nor does anything else");
    // Pages of blocks that were freed earlier are reused; a block that was just freed is quarantined or retired.
    for (int i = 0; i < 1000; i++) {
        heap_free(blocks[i]);
        enum zg_state found = heap_state_of(blocks[i]);
        CHECK(found == zg_state_retired || found == zg_state_quarantined, "dead");
        blocks[i] = make();
        CHECK_EQUAL(heap_state_of(blocks[i]), zg_state_live, "alive");
    }
    for (int i = 0; i < HELD; i++)
        if (blocks[i][0] != 'x' || blocks[i][299] != 'x') CHECK(false, "contents are as they were written");
    use(850);
    poll_now();
    churn();
    CHECK_EQUAL(zg_window_bytes(), windows, "nor where memory is low");
    use(100);
    poll_now();
    CHECK(!zg_conditions_is_narrow(), "memory suffices again");
    char *more[HELD / 2];
    for (int i = 0; i < HELD / 2; i++) more[i] = make();
    CHECK(zg_window_bytes() > windows, "and windows get more of it");
    for (int i = 0; i < HELD / 2; i++) heap_free(more[i]);
}

// Checks that no two threads get the same page: each thread must find its own contents in its blocks.
static void *turn(void *number) {
    enum { OWN = 500 };
    static __thread char *own[OWN];
    uint32_t chance = (uint32_t)(uintptr_t)number;
    for (int i = 0; i < TURNS; i++) {
        chance = chance * 1664525 + 1013904223;
        char **block = &own[chance / 65536 % OWN];
        if (*block && ((*block)[0] != (char)(uintptr_t)number || (*block)[299] != (char)(uintptr_t)number))
            return "changed";
        heap_free(*block);
        size_t size = 300 + chance / 65536 % 300;
        *block = heap_allocate(size, 16, i % 2);
        memset(*block, (int)(uintptr_t)number, size);
    }
    for (int i = 0; i < OWN; i++) heap_free(own[i]);
    return NULL;
}

static void check_threads(void) {
    pthread_t threads[THREADS];
    use(700);
    poll_now();
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, turn, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) {
        void *changed;
        pthread_join(threads[i], &changed);
        CHECK(!changed, "blocks are one thread's");
    }
    CHECK_EQUAL(zg_stats_get(zg_counter_findings), 0, "nothing is found");
}

static void remove_tree(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", tree);
    if (system(command) != 0) fprintf(stderr, "%s is left\n", tree);
}

int main(void) {
    setenv("ZGUARD_OPTIONS", "profile=fence:pressure_thread=0:report_path=/dev/null", 1);
    if (!CHECK(mkdtemp(tree), "a folder for the fake tree")) return check_end();
    make_tree();
    zg_os_root = tree;
    zg_runtime_start();
    if (!CHECK(zg_ready(), "the runtime starts")) return check_end();
    char *first = make();
    bool windows = zg_window_bytes() != 0;
    for (int i = 0; i < 8 && !windows; i++) heap_free(make()), windows = zg_window_bytes() != 0;
    heap_free(first);
    if (windows) {
        check_one_thread();
        check_threads();
    } else {
        printf("skipped: this kernel has no windows\n");
    }
    remove_tree();
    return check_end();
}
