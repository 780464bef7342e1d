// Live isolated blocks: writes behind a block are always found; reads, too, or only at first if masked loads are slow.
// preload

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>

#include "../../Sources/CZombie/include/zg_api.h"
#include "life.h"

enum { SIZE = 32, SOME_MS = 150, FAULT = 128 + SIGSEGV, ABORT = 128 + SIGABRT };

static bool has_masked_loads(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}

static void use_processor(void) {
    struct timespec now;
    int64_t start = -1, ns;
    do {
        for (int i = 0; i < 200; i++) {
            void *volatile block = malloc(100); // some of these calls take the slow path, which opens guard pages
            free(block);
        }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
        if (start < 0) start = ns;
    } while (ns - start < SOME_MS * INT64_C(1000000));
}

static int count_findings(void) {
    const struct zg_api *(*find)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    return find ? (int)find()->finding_count(NULL) : -1;
}

static int run(const char *mode) {
    volatile size_t size = strstr(mode, "nothing") ? 0 : SIZE;
    volatile char *volatile block = malloc(size);
    bool dead = strstr(mode, "dead"), writes = strstr(mode, "write");
    if (!strstr(mode, "at-once")) use_processor();
    if (dead) free((void *)block);
    if (writes) block[size] = 1;
    else (void)block[size];
    if (!dead) free((void *)block);
    return strstr(mode, "count") ? count_findings() : 0;
}

static void quietly(void) {
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 2);
}
static void never(void) {
    quietly();
    setenv("ZGUARD_OPTIONS", "overread_ms=0", 1);
}
static void going_on(void) {
    quietly();
    setenv("ZGUARD_OPTIONS", "on_finding=continue:report_path=/dev/null", 1);
}
static void in_profile_fence(void) {
    quietly();
    setenv("ZGUARD_OPTIONS", "profile=fence", 1);
}

int main(int count, char **arguments) {
    if (count > 1) return run(arguments[1]);
    int later = has_masked_loads() ? 0 : FAULT;
    CHECK_EQUAL(life_run_self("read at-once", quietly), FAULT, "a read at once");
    CHECK_EQUAL(life_run_self("write at-once", quietly), FAULT, "a write at once");
    CHECK_EQUAL(life_run_self("read", quietly), later, "a read later");
    CHECK_EQUAL(life_run_self("write", quietly), later ? later : ABORT, "a write later is found at the free");
    CHECK_EQUAL(life_run_self("dead read", quietly), FAULT, "behind a dead block");
    CHECK_EQUAL(life_run_self("read nothing", quietly), FAULT, "a block of 0 bytes keeps its guard");
    CHECK_EQUAL(life_run_self("read", never), FAULT, "a read later, where guards stay");
    CHECK_EQUAL(life_run_self("dead read count", going_on), 1, "behind a dead block whose contents are kept");
    CHECK_EQUAL(life_run_self("write count", going_on), 1, "a write later, where the program goes on");
    CHECK_EQUAL(life_run_self("read", in_profile_fence), FAULT, "a read later in profile fence");
    return check_end();
}
