// A child of fork starts with its parent's spent processor time, so that it does not get a fresh budget.
// preload
// options: overhead=5%

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../Sources/CZombie/include/zg_api.h"
#include "../../Sources/CZombie/include/zg_stats_page.h"
#include "check.h"

static uint64_t cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void work(uint64_t ms) {
    for (uint64_t end = cpu_ms() + ms; cpu_ms() < end;)
        for (int i = 0; i < 1000; i++) free(malloc(64));
}

int main(void) {
    const struct zg_api *(*find)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    if (!CHECK(find && find(), "the library is there")) return check_end();
    work(300);
    uint64_t parents = find()->statistics->counters[zg_counter_overhead_permille];
    pid_t child = fork();
    if (child == 0) {
        work(10);
        uint64_t spent = find()->statistics->counters[zg_counter_overhead_permille];
        if (spent <= 2 * parents + 100) _exit(0);
        fprintf(stderr, "%ju permille spent, by the parent %ju\n", (uintmax_t)spent, (uintmax_t)parents);
        _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "the parent's share counts with the child's");
    return check_end();
}
