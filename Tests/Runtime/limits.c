// Scarce resources: closed and few descriptors, limited address space and data, unlimited stack, blocked break.
// slow
// preload
// warning: no address space for the guarded heap

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "life.h"

static void limit(int resource, rlim_t value) {
    struct rlimit limit = {value, value};
    setrlimit(resource, &limit);
}

static void few_descriptors(void) { limit(RLIMIT_NOFILE, 20); }
static void small_space(void) { limit(RLIMIT_AS, (rlim_t)300 << 20); }
static void smaller_space(void) { limit(RLIMIT_AS, (rlim_t)64 << 20); }
static void wide_space(void) { limit(RLIMIT_AS, (rlim_t)8 << 30); }
static void medium_space(void) { limit(RLIMIT_AS, (rlim_t)2 << 30); }
static void little_data(void) { limit(RLIMIT_DATA, (rlim_t)64 << 20); }
static void little_locked(void) { limit(RLIMIT_MEMLOCK, 4096); }
static void unlimited_stack(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_STACK, &limit);
}
static void compact_layout(void) { personality(ADDR_COMPAT_LAYOUT); }
static void no_randomness(void) { personality(ADDR_NO_RANDOMIZE); }
static void small_stack(void) { limit(RLIMIT_STACK, 256 << 10); }
static void closed_descriptors(void) { syscall(SYS_close_range, 3u, ~0u, 0u); }

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
    pid_t child = fork();
    if (child == 0) _exit(work_with_blocks(200));
    return life_wait(child) ? 4 : 0;
}

// Allocates until memory runs out: malloc returns NULL with ENOMEM, and works again after a free.
static int exhaust(void) {
    enum { MOST = 200000 };
    static void *blocks[MOST];
    int count = 0;
    for (size_t size = 4 << 20; size >= 1000; size /= 4) {
        errno = 0;
        while (count < MOST && (blocks[count] = malloc(size))) memset(blocks[count++], 1, size < 4096 ? size : 4096);
        if (count < MOST && errno != ENOMEM) return 1;
    }
    if (count < 5) return 2;
    struct mallinfo2 info = mallinfo2();
    if (info.arena > (size_t)1 << 40 || info.uordblks > (size_t)1 << 40) {
        fprintf(stderr, "arena %zu uordblks %zu\n", info.arena, info.uordblks);
        return 3;
    }
    while (count) free(blocks[--count]);
    return work_with_blocks(1000) ? 4 : 0;
}

// The system repeatedly refuses large blocks: the heap's statistics stay correct.
static int refuse_large(void) {
    limit(RLIMIT_DATA, (rlim_t)40 << 20);
    for (int i = 0; i < 2000; i++) free(malloc((size_t)64 << 20));
    struct mallinfo2 info = mallinfo2();
    if (info.arena > (size_t)1 << 40) {
        fprintf(stderr, "arena %zu\n", info.arena);
        return 1;
    }
    return work_with_blocks(100) ? 2 : 0;
}

// The program closes all descriptors, as daemons do, and opens its own under the same numbers.
static int close_all(void) {
    syscall(SYS_close_range, 0u, ~0u, 0u);
    int result = work_everywhere();
    int null = open("/dev/null", O_RDWR);
    if (null != 0) return 10;
    int pipes[2];
    if (pipe(pipes) != 0 || pipes[0] != 1 || pipes[1] != 2) return 11;
    for (int i = 3; i < 30; i++)
        if (open("/dev/null", O_RDWR) != i) return 12;
    result |= work_everywhere();
    char byte = 0;
    if (fcntl(pipes[0], F_SETFL, O_NONBLOCK) != 0 || read(pipes[0], &byte, 1) != -1)
        return 13; // something was written into the program's pipe
    return result;
}

// libc's own heap cannot grow at the break. Its blocks then lie in mappings, and are still recognized as libc's.
static int block_break(void) {
    extern void *__libc_malloc(size_t);
    char *end = sbrk(0);
    for (int i = 0; i < 4; i++)
        mmap((char *)(((uint64_t)end + 4095) & ~UINT64_C(4095)) + i * 4096, 4096, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    void *blocks[100];
    for (int i = 0; i < 100; i++) {
        blocks[i] = __libc_malloc(3000);
        if (!blocks[i]) return 1;
        memset(blocks[i], i, 3000);
    }
    for (int i = 0; i < 100; i++) {
        if (i % 3 == 0) blocks[i] = realloc(blocks[i], 9000);
        if (!blocks[i] || ((unsigned char *)blocks[i])[2999] != i) return 2;
        if (malloc_usable_size(blocks[i]) < 3000) return 3;
        free(blocks[i]);
    }
    return work_with_blocks(100);
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    if (strcmp(mode, "work") == 0) return work_everywhere();
    if (strcmp(mode, "exhaust") == 0) return exhaust();
    if (strcmp(mode, "close") == 0) return close_all();
    if (strcmp(mode, "refuse") == 0) return refuse_large();
    if (strcmp(mode, "break") == 0) return block_break();
    CHECK_EQUAL(life_run_self("work", few_descriptors), 0, "twenty descriptors");
    CHECK_EQUAL(life_run_self("work", NULL), 0, "no limit");
    CHECK_EQUAL(life_run_self("work", closed_descriptors), 0, "descriptors closed before the start");
    CHECK_EQUAL(life_run_self("close", NULL), 0, "descriptors closed by the program");
    CHECK_EQUAL(life_run_self("work", wide_space), 0, "8 GiB of address space");
    CHECK_EQUAL(life_run_self("work", small_space), 0, "300 MiB of address space");
    CHECK_EQUAL(life_run_self("work", smaller_space), 0, "64 MiB of address space");
    CHECK_EQUAL(life_run_self("exhaust", medium_space), 0, "2 GiB of address space, used up");
    CHECK_EQUAL(life_run_self("exhaust", small_space), 0, "300 MiB of address space, used up");
    CHECK_EQUAL(life_run_self("work", little_data), 0, "64 MiB of data");
    CHECK_EQUAL(life_run_self("exhaust", little_data), 0, "64 MiB of data, used up");
    CHECK_EQUAL(life_run_self("work", little_locked), 0, "no locked memory");
    CHECK_EQUAL(life_run_self("work", unlimited_stack), 0, "an unlimited stack");
    CHECK_EQUAL(life_run_self("exhaust", small_stack), 0, "a small stack and no other limit");
    CHECK_EQUAL(life_run_self("work", compact_layout), 0, "mappings from the bottom up");
    CHECK_EQUAL(life_run_self("work", no_randomness), 0, "no address randomization");
    CHECK_EQUAL(life_run_self("refuse", NULL), 0, "large blocks refused by the data limit");
    CHECK_EQUAL(life_run_self("break", NULL), 0, "libc's heap away from the break");
    return check_end();
}
