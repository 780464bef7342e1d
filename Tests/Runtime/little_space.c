// With little address space, freed blocks' addresses are reused before the space runs out: all blocks stay guarded.
// preload
// options: profile=fence

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../Sources/CZombie/include/zg_api.h"
#include "../../Sources/CZombie/include/zg_stats_page.h"
#include "check.h"

int main(int count, char **arguments) {
    if (count == 1) {
        struct rlimit limit = {(rlim_t)3 << 30, (rlim_t)3 << 30};
        if (!CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit")) return check_end();
        execl("/proc/self/exe", arguments[0], "limited", (char *)NULL);
    }
    const struct zg_api *(*find)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    if (!CHECK(find && find(), "the library is there")) return check_end();
    for (int i = 0; i < 60000; i++) free(malloc(64));
    const uint64_t *counters = find()->statistics->counters;
    CHECK_EQUAL(counters[zg_counter_fence_declined], 0, "blocks that got no pages of their own");
    for (int i = 0; i < 2000; i++) free(malloc(2 << 20));
    CHECK_EQUAL(counters[zg_counter_unguarded_allocations], 0, "blocks that libc served");
    return check_end();
}
