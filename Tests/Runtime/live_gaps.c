// Red zones of live blocks: the first check finds a change, once; blocks that come and go meanwhile cause no finding.
// preload
// libs: -pthread

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "../../Sources/CZombie/include/zg_api.h"
#include "life.h"

enum { PAGE = 4096, THREADS = 4, LOOKS = 20000, BLOCKS = 32, EVERY = 4 };

static const struct zg_api *api(void) {
    const struct zg_api *(*find)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    return find();
}

// Allocates a block; all blocks have the same innermost frame.
static __attribute__((noinline)) char *make(size_t size) {
    char *block = malloc(size);
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

static bool stop;
static void *work(void *unused) {
    char *volatile blocks[BLOCKS] = {NULL};
    for (size_t i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
        char *volatile *block = &blocks[i % BLOCKS];
        free(*block);
        size_t size = i * 61 % 10000;
        *block = make(size);
        memset(*block, 'x', size);
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return unused;
}

// Counts findings in a process with busy threads and intact blocks. Addresses are reused soon.
static int look_often(void) {
    pthread_t threads[THREADS];
    char *protected = memalign(PAGE, PAGE + 100), *discarded = memalign(PAGE, 2 * PAGE);
    mprotect(protected, 2 * PAGE, PROT_NONE);
    madvise(discarded, 2 * PAGE, MADV_DONTNEED);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    int found = 0;
    for (int i = 0; i < LOOKS; i++) found += (int)api()->verify();
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    found += (int)api()->verify();
    return found + (int)api()->finding_count(NULL);
}

// Returns three digits: numbers of findings of the first check, of the second check, and in total after the block is
// freed.
static int look(const char *mode) {
    char *blocks[EVERY + 1];
    for (int i = 0; i <= EVERY; i++) blocks[i] = make(20);
    bool is_at_start = strstr(mode, "start");
    char *volatile block = NULL;
    for (int i = 0; i <= EVERY; i++)
        if (((uintptr_t)blocks[i] % PAGE == 0) == is_at_start) block = blocks[i];
    if (!block) return 250;
    if (strstr(mode, "behind")) block[20] = 1;
    if (strstr(mode, "far")) block[is_at_start ? PAGE - 1 : 31] = 1;
    if (strstr(mode, "front")) block[-256] = 1;
    if (strstr(mode, "unseen")) block[-257] = 1;
    int first = (int)api()->verify(), second = (int)api()->verify();
    free(block);
    return 100 * first + 10 * second + (int)api()->finding_count(NULL);
}

static void going_on(void) { setenv("ZGUARD_OPTIONS", "profile=fence:on_finding=continue:report_path=/dev/null", 1); }
static void soon_again(void) { setenv("ZGUARD_OPTIONS", "profile=fence:retired_bytes=64k:report_path=/dev/null", 1); }
static void by_mappings(void) {
    setenv("ZGUARD_OPTIONS", "profile=fence:retired_bytes=64k:protect=mprotect:report_path=/dev/null", 1);
}

int main(int count, char **arguments) {
    if (count > 1) return strstr(arguments[1], "often") ? look_often() : look(arguments[1]);
    CHECK_EQUAL(life_run_self("behind", going_on), 101, "the byte behind a block");
    CHECK_EQUAL(life_run_self("behind far", going_on), 101, "several bytes are one finding");
    CHECK_EQUAL(life_run_self("front", going_on), 101, "the furthest byte in front that is looked at");
    CHECK_EQUAL(life_run_self("unseen", going_on), 0, "one more");
    CHECK_EQUAL(life_run_self("behind start", going_on), 101, "the byte behind a block at the start of its page");
    CHECK_EQUAL(life_run_self("far start", going_on), 101, "the page's last byte");
    CHECK_EQUAL(life_run_self("intact", going_on), 0, "nothing has changed");
    CHECK_EQUAL(life_run_self("often", soon_again), 0, "blocks come and go");
    CHECK_EQUAL(life_run_self("often", by_mappings), 0, "blocks come and go, protected by mappings");
    return check_end();
}
