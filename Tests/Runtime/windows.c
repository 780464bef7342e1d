// Tests blocks in windows: contents, freed pages, findings, fork, released memory, and processes without windows.
// qemu-user: /proc/self/maps shows the emulator's mappings, and a vfork is a fork
// slow
// preload
// options: profile=fence:isolated_windows=all
// timeout: 300

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "life.h"

enum { PAGE = 4096, MOST = 2040, SLOTS = 512, OPERATIONS = 200000 };
extern char **environ;

struct held {
    unsigned char *start;
    size_t size;
    unsigned salt;
};

static unsigned char byte_of(unsigned salt, size_t at) { return (unsigned char)(salt * 37 + at * 131 + at / 251); }

static void write_all(const struct held *held) {
    for (size_t at = 0; at < held->size; at++) held->start[at] = byte_of(held->salt, at);
}
static bool is_first_kept(const struct held *held, size_t count) {
    for (size_t at = 0; at < count; at++)
        if (held->start[at] != byte_of(held->salt, at)) return false;
    return true;
}
static bool is_kept(const struct held *held) { return is_first_kept(held, held->size); }

// Reads through the kernel, which fails instead of faulting. All arguments are whole words, because syscall passes
// words.
static bool can_read(const void *address) {
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)address, 1};
    return syscall(SYS_process_vm_readv, (long)getpid(), &to, 1L, &from, 1L, 0L) == 1;
}

// Returns true if the address is in a shared mapping, as windows are.
static bool is_in_window(const void *address) {
    char letters[5] = "none", line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char found[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, found) == 3 && (uintptr_t)address >= from &&
            (uintptr_t)address < to)
            strcpy(letters, found);
    }
    if (maps) fclose(maps);
    return letters[3] == 's';
}

// --- contents --------------------------------------------------------------------------------------------------------

static bool is_zero(const unsigned char *start, size_t size) {
    while (size && !start[size - 1]) size--;
    return !size;
}

static void make(struct held *held, uint64_t r) {
    held->size = 1 + r % MOST;
    size_t alignment = promised_alignment(held->size);
    held->salt = (unsigned)(r >> 16);
    switch (r >> 40 & 7) {
    case 0:
        held->start = calloc(1, held->size);
        CHECK(is_zero(held->start, held->size), "calloc gives zeros");
        break;
    case 1:
        alignment = (size_t)16 << (r >> 44) % 8;
        held->start = aligned_alloc(alignment, held->size);
        break;
    default: held->start = malloc(held->size);
    }
    CHECK_EQUAL((uintptr_t)held->start % alignment, 0, "a block is aligned");
    CHECK(malloc_usable_size(held->start) >= held->size, "a block has as many bytes as were asked for");
    write_all(held);
}

static void drop(struct held *held) {
    CHECK(is_kept(held), "contents last until the block is freed");
    free(held->start);
    held->start = NULL;
}

static void resize(struct held *held, uint64_t r) {
    size_t size = 1 + r % (r >> 20 & 7 ? MOST : 3 * PAGE);
    unsigned char *resized = realloc(held->start, size);
    if (!CHECK(resized, "realloc succeeds")) return;
    held->start = resized;
    CHECK(is_first_kept(held, held->size < size ? held->size : size), "realloc keeps the contents");
    held->size = size;
    write_all(held);
}

// Allocates, frees and resizes blocks at random. The caller must free the blocks left in `held`.
static void work_at_random(struct held *held, uint64_t seed, int operations) {
    uint64_t state = seed;
    for (int i = 0; i < operations; i++) {
        uint64_t r = work_random(&state);
        struct held *one = &held[(r >> 48) % SLOTS];
        if (!one->start) make(one, r);
        else if (r & 3 << 20) drop(one);
        else resize(one, r);
    }
}

static void drop_all(struct held *held, int count) {
    for (int i = 0; i < count; i++)
        if (held[i].start) drop(&held[i]);
}

static void *work_in_thread(void *seed) {
    static __thread struct held held[SLOTS];
    work_at_random(held, (uintptr_t)seed, OPERATIONS / 4);
    drop_all(held, SLOTS);
    return NULL;
}

static void check_contents(void) {
    static struct held held[SLOTS];
    work_at_random(held, 1, OPERATIONS);
    drop_all(held, SLOTS);
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work_in_thread, (void *)(i + 2));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (size_t size = 1; size <= MOST; size++) {
        struct held one = {malloc(size), size, (unsigned)size};
        write_all(&one);
        drop(&one);
    }
    for (size_t alignment = 1; alignment <= MOST; alignment *= 2) {
        void *block = NULL;
        if (alignment >= sizeof block)
            CHECK(posix_memalign(&block, alignment, alignment + 1) == 0, "an aligned block is made");
        CHECK_EQUAL((uintptr_t)block % alignment, 0, "and aligned");
        free(block);
    }
}

// --- pages of freed blocks -------------------------------------------------------------------------------------------

// Runs at the start of the process, when the budget still allows a guard page for each freed block.
static void check_dead_pages(void) {
    enum { COUNT = 400 };
    unsigned char *blocks[COUNT];
    int windows = 0, dead = 0, alone = 0;
    for (int i = 0; i < COUNT; i++) memset(blocks[i] = malloc(1 + (size_t)i * 5), 1, 1 + (size_t)i * 5);
    for (int i = 0; i < COUNT; i += 20) windows += is_in_window(blocks[i]);
    CHECK_EQUAL(windows, COUNT / 20, "small blocks lie in windows");
    for (int i = 1; i < COUNT; i++) alone += (uintptr_t)blocks[i] / PAGE != (uintptr_t)blocks[i - 1] / PAGE;
    CHECK_EQUAL(alone, COUNT - 1, "each at a page of its own");
    for (int i = 0; i < COUNT; i++) {
        free(blocks[i]);
        dead += !can_read(blocks[i]);
        blocks[i] = (unsigned char *)((uintptr_t)blocks[i] & ~(uintptr_t)(PAGE - 1));
        dead += !can_read(blocks[i]) && !can_read(blocks[i] + PAGE - 1);
    }
    CHECK_EQUAL(dead, 2 * COUNT, "a freed block's page is inaccessible at once");
    struct held held[SLOTS] = {{0}};
    work_at_random(held, 99, 5000);
    dead = 0;
    for (int i = 0; i < COUNT; i++) dead += !can_read(blocks[i]);
    CHECK_EQUAL(dead, COUNT, "and stays so while its memory serves others");
    drop_all(held, SLOTS);
}

// --- findings --------------------------------------------------------------------------------------------------------

// Uses up the time budget for guarding single pages. Returns a freed block whose page is still writable; NULL if none.
static unsigned char *dying_block(size_t size) {
    for (int i = 0; i < 4000000; i++) {
        unsigned char *block = malloc(size);
        memset(block, 1, size);
        free(block);
        if (i % 1000 == 0 && can_read(block)) return block;
    }
    return NULL;
}

static int do_wrong(const char *what) {
    unsigned char *block = malloc(100);
    if (!is_in_window(block)) return 3;
    memset(block, 1, 100);
    if (!strcmp(what, "double free")) {
        free(block);
        free(block);
    } else if (!strcmp(what, "interior free")) {
        free(block + 16);
    } else if (!strcmp(what, "realloc of a dead block")) {
        free(block);
        return realloc(block, 200) != NULL;
    } else if (!strcmp(what, "gap written, first byte")) {
        block[100] = 2;
        free(block);
    } else if (!strcmp(what, "gap written, last byte")) {
        block[107] = 2;
        free(block);
    } else if (!strcmp(what, "gap written, realloc")) {
        block[101] = 2;
        return !realloc(block, 3000);
    } else if (!strcmp(what, "dead block read")) {
        free(block);
        return block[50] == 77;
    } else if (!strcmp(what, "dead block written")) {
        free(block);
        block[50] = 2;
    } else if (!strcmp(what, "dead block written in a child")) {
        free(block);
        if (!fork()) block[50] = 2, _exit(0);
        int status;
        wait(&status);
        return WIFSIGNALED(status) ? kill(getpid(), WTERMSIG(status)) : 4;
    } else {
        if (!(block = dying_block(100))) return 5;
        if (!strcmp(what, "dying block freed")) free(block);
        block[50] = 2;
        if (!strcmp(what, "dying block written, exit")) return 0;
        if (!strcmp(what, "dying block written, trim")) malloc_trim(0), _exit(8);
        if (!strcmp(what, "dying block written, child's exit")) {
            if (!fork()) exit(0);
            int status;
            wait(&status);
            _exit(WIFEXITED(status) && !WEXITSTATUS(status) ? 6 : 4); // the child itself reported the change
        }
        for (int i = 0; i < 1000000; i++) free(malloc(100));
        _exit(7); // the change should have been reported by now
    }
    return 0;
}

static char report[64];

static void report_to_file(void) {
    char options[128];
    snprintf(options, sizeof options, "profile=fence:isolated_windows=all:report_path=%s", report);
    setenv("ZGUARD_OPTIONS", options, 1);
    freopen("/dev/null", "w", stderr);
}

static void check_finding(const char *what, const char *kind, int code) {
    char text[65536] = "", wanted[64], message[128];
    snprintf(report, sizeof report, "/tmp/zguard-windows-%d", (int)getpid());
    CHECK_EQUAL(life_run_self(what, report_to_file), code, what);
    FILE *file = fopen(report, "r");
    if (file) text[fread(text, 1, sizeof text - 1, file)] = 0, fclose(file);
    unlink(report);
    snprintf(wanted, sizeof wanted, "\"kind\":\"%s\"", kind);
    snprintf(message, sizeof message, "%s is found as %s", what, kind);
    CHECK(strstr(text, wanted) && !strstr(strstr(text, wanted) + 1, "\"kind\""), message);
}

static void check_findings(void) {
    check_finding("double free", "double-free", 128 + SIGABRT);
    check_finding("interior free", "invalid-free", 128 + SIGABRT);
    check_finding("realloc of a dead block", "double-free", 128 + SIGABRT);
    check_finding("gap written, first byte", "heap-overflow", 128 + SIGABRT);
    check_finding("gap written, last byte", "heap-overflow", 128 + SIGABRT);
    check_finding("gap written, realloc", "heap-overflow", 128 + SIGABRT);
    check_finding("dead block read", "use-after-free", 128 + SIGSEGV);
    check_finding("dead block written", "use-after-free", 128 + SIGSEGV);
    check_finding("dead block written in a child", "use-after-free", 128 + SIGSEGV);
    check_finding("dying block freed", "double-free", 128 + SIGABRT);
    check_finding("dying block written", "write-after-free", 128 + SIGABRT);
    check_finding("dying block written, trim", "write-after-free", 128 + SIGABRT);
    check_finding("dying block written, exit", "write-after-free", 0);
    check_finding("dying block written, child's exit", "write-after-free", 6);
}

// --- forks -----------------------------------------------------------------------------------------------------------

static void tell(int pipe) { CHECK_EQUAL(write(pipe, "x", 1), 1, "the other is told"); }
static void hear(int pipe) {
    char byte;
    CHECK_EQUAL(read(pipe, &byte, 1), 1, "the other is heard");
}

static void change_all(struct held *held, int count, unsigned by) {
    for (int i = 0; i < count; i++) held[i].salt += by, write_all(&held[i]);
}
// Counts freed blocks whose pages are inaccessible.
static int count_dead(unsigned char **dead, int count) {
    int there = 0;
    for (int i = 0; i < count; i++) there += !can_read(dead[i]);
    return there;
}
static int count_kept(const struct held *held, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++) kept += is_kept(&held[i]);
    return kept;
}

// Parent and child change their blocks in turn, in `left` + 1 generations. Neither may see the other's writes.
static int generation(struct held *held, unsigned char **dead, int count, int left) {
    int to_child[2], to_parent[2], start = check_failures, dead_before = count_dead(dead, count);
    if (pipe(to_child) || pipe(to_parent)) return 1;
    pid_t child = fork();
    if (!child) {
        CHECK_EQUAL(count_kept(held, count), count, "a child has the contents of the moment of the fork");
        CHECK_EQUAL(count_dead(dead, count), dead_before, "dead blocks are dead in the child");
        change_all(held, count, 1000);
        tell(to_parent[1]);
        hear(to_child[0]);
        CHECK_EQUAL(count_kept(held, count), count, "what the parent writes does not reach the child");
        for (int i = 0; i < count; i += 2) {
            drop(&held[i]);
            make(&held[i], (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15));
        }
        CHECK_EQUAL(count_kept(held, count), count, "a child frees and allocates");
        if (left) CHECK_EQUAL(generation(held, dead, count, left - 1), 0, "a child forks again");
        CHECK_EQUAL(count_kept(held, count), count, "its own child changes nothing");
        drop_all(held, count);
        exit(check_failures != start);
    }
    hear(to_parent[0]);
    CHECK_EQUAL(count_kept(held, count), count, "what the child writes does not reach the parent");
    change_all(held, count, 2000);
    tell(to_child[1]);
    for (int i = 0; i < 2000; i++) free(malloc(1 + (size_t)i % MOST));
    CHECK_EQUAL(life_wait(child), 0, "the child comes to a good end");
    CHECK_EQUAL(count_kept(held, count), count, "the parent goes on");
    for (int i = 0; i < 2; i++) close(to_child[i]), close(to_parent[i]);
    return check_failures != start;
}

static void check_generations(void) {
    enum { COUNT = 500 };
    static struct held held[COUNT];
    static unsigned char *dead[COUNT];
    uint64_t state = 5;
    for (int i = 0; i < COUNT; i++) {
        make(&held[i], work_random(&state));
        free(dead[i] = malloc(held[i].size));
        // Once the budget is used up, a freed block becomes inaccessible only when its window is retired.
        while (can_read(dead[i])) free(dead[i] = malloc(100));
    }
    CHECK_EQUAL(generation(held, dead, COUNT, 2), 0, "three generations");
    drop_all(held, COUNT);
}

static int stop;

static void *churn(void *seed) {
    static __thread struct held held[SLOTS];
    for (uint64_t i = (uintptr_t)seed; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i += 10) work_at_random(held, i, 200);
    drop_all(held, SLOTS);
    return NULL;
}

static void *fork_often(void *seed) {
    static __thread struct held held[SLOTS];
    for (uint64_t i = 0; i < 60; i++) {
        int before = check_failures;
        work_at_random(held, (uintptr_t)seed + i, 300);
        pid_t child = fork();
        if (!child) {
            int kept = 0, there = 0;
            for (int j = 0; j < SLOTS; j++)
                if (held[j].start) there++, kept += is_kept(&held[j]);
            if (kept != there) _exit(2);
            work_at_random(held, i, 300);
            for (int j = 0; j < SLOTS; j++) free(held[j].start);
            _exit(check_failures != before ? 3 : 0);
        }
        CHECK_EQUAL(life_wait(child), 0, "a child of a process with threads has its thread's blocks");
    }
    drop_all(held, SLOTS);
    return NULL;
}

static void check_threads(void) {
    pthread_t busy[2], forking[2];
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&busy[i], NULL, churn, (void *)(20 + i));
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&forking[i], NULL, fork_often, (void *)(30 + 1000 * i));
    for (int i = 0; i < 2; i++) pthread_join(forking[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) pthread_join(busy[i], NULL);
}

enum { KEPT = 100, FORKS_IN_HANDLER = 100 };
static struct held in_handler[KEPT];
static volatile sig_atomic_t forks_in_handler, bad_children;

static void fork_in_handler(int number) {
    (void)number;
    int status, error = errno;
    pid_t child = fork();
    if (!child) _exit(count_kept(in_handler, KEPT) == KEPT ? 0 : 1);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    bad_children += status != 0;
    if (++forks_in_handler < FORKS_IN_HANDLER) {
        struct itimerval soon = {.it_value = {0, 300}};
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    errno = error;
}

static void check_handler(void) {
    struct held held[SLOTS] = {{0}};
    for (uint64_t i = 0; i < KEPT; i++) make(&in_handler[i], i * UINT64_C(0x9e3779b97f4a7c15));
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval soon = {.it_value = {0, 300}};
    setitimer(ITIMER_REAL, &soon, NULL);
    for (uint64_t i = 0; forks_in_handler < FORKS_IN_HANDLER; i++) work_at_random(held, i, 100);
    CHECK_EQUAL(bad_children, 0, "children of a handler that interrupts malloc and free have the blocks");
    drop_all(held, SLOTS);
    drop_all(in_handler, KEPT);
}

// Tests signals that arrive in the child before its fork has returned.
static struct held *volatile of_handler;
static volatile sig_atomic_t changed;
static void read_block(int number) {
    (void)number;
    changed += !is_kept(of_handler);
}

static int fork_under_signals(void) {
    struct held one = {malloc(200), 200, 7};
    of_handler = &one;
    write_all(&one);
    setpgid(0, 0);
    int own = getpid(), status, wrong = 0;
    struct sigaction action = {.sa_handler = read_block, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pid_t sender = fork();
    if (!sender) {
        signal(SIGUSR1, SIG_IGN);
        while (getppid() == own) kill(-own, SIGUSR1);
        _exit(0);
    }
    for (int i = 0; i < 300; i++) {
        pid_t child = fork();
        if (!child) _exit(changed || !is_kept(&one));
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        wrong += status != 0;
    }
    kill(sender, SIGKILL);
    waitpid(sender, &status, 0);
    return wrong || changed ? 1 : 0;
}

// Returns the resident bytes of window memory. Counts each chunk once, at a mapping that begins at the chunk's start.
static uint64_t window_memory(int *mappings) {
    static unsigned char pages[1 << 16];
    static unsigned long seen[4096];
    char line[512];
    uint64_t bytes = 0;
    int files = 0;
    *mappings = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to, offset, file;
        char letters[5];
        ++*mappings;
        if (sscanf(line, "%lx-%lx %4s %lx %*s %lu", &from, &to, letters, &offset, &file) != 5) continue;
        if (strcmp(letters, "rw-s") || offset || !strstr(line, "/dev/zero")) continue;
        int i = 0;
        while (i < files && seen[i] != file) i++;
        if (i < files || files == 4096 || to - from > sizeof pages * PAGE) continue;
        seen[files++] = file;
        if (mincore((void *)from, to - from, pages) != 0) continue;
        for (unsigned long page = 0; page < (to - from) / PAGE; page++) bytes += (pages[page] & 1) * PAGE;
    }
    if (maps) fclose(maps);
    return bytes;
}

static void check_memory(void) {
    enum { COUNT = 20000, SIZE = 1000 };
    static char *blocks[COUNT];
    int mappings, mappings_then;
    for (int i = 0; i < COUNT; i++) memset(blocks[i] = malloc(SIZE), 1, SIZE);
    uint64_t most = window_memory(&mappings);
    CHECK(most >= (uint64_t)COUNT * SIZE && most < (uint64_t)2 * COUNT * SIZE, "blocks in windows are packed");
    for (int i = 0; i < COUNT; i++) memset(blocks[i], 2, SIZE), free(blocks[i]);
    malloc_trim(0);
    uint64_t left = window_memory(&mappings);
    CHECK(left < most / 4, "malloc_trim gives back what dead blocks lay in");
    for (int i = 0; i < COUNT / 4; i++) memset(blocks[i] = calloc(1, SIZE), 3, SIZE);
    uint64_t before = window_memory(&mappings);
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (!child) {
            for (int j = 0; j < 100; j++) free(malloc(500));
            _exit(blocks[i][0] != 3);
        }
        CHECK_EQUAL(life_wait(child), 0, "one of many children");
    }
    uint64_t after = window_memory(&mappings_then);
    CHECK(after <= before + before / 8, "children take no memory of their parent's");
    CHECK(mappings_then <= mappings + 10, "and no mappings");
    // Ten generations of forks: memory and mappings do not grow.
    for (int depth = 0; depth < 10; depth++) {
        pid_t child = fork();
        if (child) {
            int result = life_wait(child);
            if (depth) _exit(result);
            CHECK_EQUAL(result, 0, "memory and mappings do not grow with the generations");
            break;
        }
        uint64_t own = window_memory(&mappings_then);
        if (own > before + before / 8 || mappings_then > mappings + 20) _exit(1);
        if (depth == 9) _exit(0);
    }
    for (int i = 0; i < COUNT / 4; i++) free(blocks[i]);
}

static void check_spawned(void) {
    char *arguments[] = {"self", "work", NULL};
    struct held one = {malloc(300), 300, 3};
    write_all(&one);
    for (int i = 0; i < 10; i++) {
        pid_t child = vfork();
        if (child == 0) {
            one.start[5] ^= 1; // vfork: also changes the parent's memory
            execv("/proc/self/exe", arguments);
            _exit(254);
        }
        CHECK_EQUAL(life_wait(child), 0, "vfork and exec");
        one.start[5] ^= 1;
        CHECK(is_kept(&one), "what a child of vfork writes is the parent's");
        CHECK_EQUAL(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0, "posix_spawn succeeds");
        CHECK_EQUAL(life_wait(child), 0, "posix_spawn");
    }
    drop(&one);
}

// --- processes without windows ---------------------------------------------------------------------------------------

static void limit_space(void) {
    struct rlimit limit = {UINT64_C(64) << 30, UINT64_C(64) << 30};
    setrlimit(RLIMIT_AS, &limit);
}

static int work_limited(void) {
    static struct held held[SLOTS];
    void *block = malloc(100);
    if (is_in_window(block)) return 2;
    free(block);
    work_at_random(held, 8, 20000);
    drop_all(held, SLOTS);
    return check_failures != 0;
}

// Works with blocks from before and after mlockall.
static int work_locked(void) {
    static struct held held[SLOTS];
    struct held before = {malloc(100), 100, 9};
    write_all(&before);
    work_at_random(held, 8, 3000);
    mlockall(MCL_CURRENT | MCL_FUTURE); // the kernel may refuse this
    work_at_random(held, 9, 3000);
    pid_t child = fork();
    if (!child) {
        work_at_random(held, 10, 1000);
        _exit(check_failures || !is_kept(&before));
    }
    if (life_wait(child)) return 2;
    munlockall();
    work_at_random(held, 11, 3000);
    drop(&before);
    drop_all(held, SLOTS);
    return check_failures != 0;
}

int main(int count, char **words) {
    if (count > 1) {
        if (!strcmp(words[1], "work")) return work_with_blocks(500);
        if (!strcmp(words[1], "signals")) return fork_under_signals();
        if (!strcmp(words[1], "limited")) return work_limited();
        if (!strcmp(words[1], "locked")) return work_locked();
        return do_wrong(words[1]);
    }
    check_dead_pages();
    check_generations();
    check_memory();
    check_contents();
    check_generations(); // now freed blocks wait until their pages are guarded together
    check_threads();
    check_handler();
    check_spawned();
    CHECK_EQUAL(life_run_self("signals", NULL), 0, "signals that reach a child before its fork has returned");
    CHECK_EQUAL(life_run_self("limited", limit_space), 0, "a limit of address space: no windows");
    CHECK_EQUAL(life_run_self("locked", NULL), 0, "mlockall");
    check_findings();
    return check_end();
}
