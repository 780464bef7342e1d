// Captures over the stack_overhead budget are shortened in steps, equal stacks stay equal, and 100% never shortens.
// preload
// options: stack_overhead=0%:stack_bytes=4g:isolated_per_context=0

#include <dlfcn.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "../../Sources/CZombie/include/zg_api.h"
#include "../../Sources/CZombie/include/zg_stats_page.h"
#include "check.h"
#include "paths.h"

enum {
    FEW = 64,
    CHUNK = 20000,
    CHUNKS_MOST = 2000,
    UNLIMITED_CHUNKS = 10,
    DEPTH = 22,
    SETTLED = 4,
    MORE = 1000000,
    NODES_MORE = 50000
};

extern char **environ;
static const struct zg_api *api;

static uint64_t count_of(enum zg_counter counter) { return api->statistics->counters[counter]; }

static void allocate_anew(uint64_t count) {
    static uint64_t made;
    for (uint64_t i = 0; i < count; i++) free(left(++made * UINT64_C(0x9e3779b97f4a7c15) >> 20, DEPTH));
}

struct stack {
    int frames;
    uint64_t innermost, outermost;
};

// Returns the stack of a block's allocation.
static struct stack stack_of(void *block) {
    char text[65536];
    struct stack stack = {0};
    text[api->describe((uint64_t)block, text, sizeof text - 1)] = 0;
    const char *at = strstr(text, "\"alloc\":[");
    const char *end = at ? strchr(at, ']') : NULL;
    while (at && (at = strstr(at, "\"pc\":\"")) && at < end) {
        stack.outermost = strtoull(at += 6, NULL, 16);
        if (!stack.frames++) stack.innermost = stack.outermost;
    }
    return stack;
}

static struct stack stack_of_new(uint64_t path) {
    void *block = left(path, DEPTH);
    struct stack stack = stack_of(block);
    free(block);
    return stack;
}

static int check_unlimited(void) {
    for (int i = 0; i < UNLIMITED_CHUNKS; i++) allocate_anew(CHUNK);
    CHECK_EQUAL(count_of(zg_counter_stacks_shortened), 0, "without a limit no stack is shortened");
    CHECK(!(api->statistics->degradations >> zg_degradation_stacks_shortened & 1), "nor does anybody say so");
    CHECK(stack_of_new(1).frames > DEPTH, "the last one is as whole as the first");
    return check_end();
}

int main(int argc, char **argv) {
    const struct zg_api *(*find)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    if (!CHECK(find && (api = find()), "the library is there")) return check_end();
    if (argc > 1) return check_unlimited();
    struct stack whole = stack_of_new(1), first = stack_of_new(1);
    for (uint64_t i = 0; i < FEW; i++) free(left(i << 8, DEPTH));
    CHECK(whole.frames > DEPTH && first.frames == whole.frames, "a few stacks are whole, whatever their share");
    CHECK_EQUAL(count_of(zg_counter_stacks_shortened), 0, "which the counter says, too");

    // Ends when the stacks are so short that the thread's cache has all their frames, or when they have one frame.
    int frames = whole.frames;
    bool shrinks = true, is_settled = false;
    for (int chunks = 0; chunks < CHUNKS_MOST && !is_settled; chunks++) {
        uint64_t shortened = count_of(zg_counter_stacks_shortened);
        allocate_anew(CHUNK);
        int now = stack_of_new(0).frames;
        is_settled = now <= SETTLED && count_of(zg_counter_stacks_shortened) - shortened < CHUNK / 10;
        shrinks &= now <= frames || now == whole.frames; // the first stacks with these innermost frames are whole
        frames = now;
    }
    struct stack last = stack_of_new(1);
    CHECK(shrinks, "with every step stacks get shorter");
    CHECK(is_settled, "without any time a few innermost frames are left");
    CHECK_EQUAL(last.innermost, whole.innermost, "which is the one that it was");
    CHECK(count_of(zg_counter_stacks_shortened) > 0, "the shortened ones are counted");
    CHECK(api->statistics->degradations >> zg_degradation_stacks_shortened & 1, "and that is said");

    uint64_t nodes = count_of(zg_counter_stack_nodes);
    int changes = 0;
    for (int i = 0; i < MORE / CHUNK; i++) {
        allocate_anew(CHUNK);
        int now = stack_of_new(1).frames;
        changes += now != last.frames;
        shrinks &= now <= last.frames;
        last.frames = now;
    }
    CHECK(count_of(zg_counter_stack_nodes) < nodes + NODES_MORE, "new stacks add hardly a frame then");
    CHECK(shrinks && changes < SETTLED, "an equal stack stays as it is, but for further steps");

    pid_t child;
    int status = -1;
    setenv("ZGUARD_OPTIONS", "stack_overhead=100%:stack_bytes=4g:isolated_per_context=0", 1);
    char *words[] = {argv[0], (char *)"unlimited", NULL};
    if (CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ) == 0, "a process without a limit"))
        waitpid(child, &status, 0);
    CHECK_EQUAL(status, 0, "records every stack whole");
    return check_end();
}
