// Every block of a focused stack is isolated and placed as the list says, without a limit; other stacks are unaffected.
// link: runtime
// options: focus=focus.list
// also: profile=fence isolated_per_context=0

#include "stacks/focus.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blocks/lookup.h"
#include "platform/base.h"
#include "process/runtime.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/identity.h"

#include "check.h"
#include "heap_calls.h"

enum { BLOCKS = 3000, SIZE = 24, ODD = 21, KINDS = 4 };
#define LIST "focus.list"

// Each maker is the innermost frame of a stack of its own.
#define MAKER(name)                                                                                                    \
    static __attribute__((noinline)) char *name(uint64_t size) {                                                       \
        char *block = heap_allocate(size, 16, false);                                                                  \
        __asm__ volatile("" : "+r"(block)::"memory");                                                                  \
        return block;                                                                                                  \
    }
MAKER(make_none)
MAKER(make_at_end)
MAKER(make_at_exact_end)
MAKER(make_at_start)

static char *(*const makers[KINDS])(uint64_t) = {make_none, make_at_end, make_at_exact_end, make_at_start};

static bool find(const char *block, struct zg_block_view *view) {
    return zg_lookup_block((uint64_t)block, view) && zg_lookup_is_isolated(view);
}

// Writes the identities of the makers' innermost frames. Without a list the runtime starts and notes a degradation.
static void write_list(int file) {
    zg_runtime_start();
    CHECK(!zg_focus_is_on, "without a list no stack is focused");
    CHECK(zg_stats->degradations >> zg_degradation_no_focus & 1, "which is said");
    char line[64];
    for (int kind = 1; kind < KINDS; kind++) {
        struct zg_block_view view;
        uint64_t parts[ZG_IDENTITY_FRAMES];
        CHECK(zg_lookup_block((uint64_t)makers[kind](SIZE), &view), "the runtime has the block");
        CHECK(zg_stack_identities(view.alloc_stack, parts) > 2, "and its stack");
        int count = snprintf(line, sizeof line, "%016jx%c\n", (uintmax_t)parts[0], ZG_RUN_FOCUS_LETTERS[kind]);
        CHECK_EQUAL(write(file, line, (size_t)count), count, "a line is written");
    }
    static const char other[] = "what is this\n0123456789abcdef\n\n0123456789abcdefQ\n12E\n";
    CHECK_EQUAL(write(file, other, sizeof other - 1), sizeof other - 1, "lines of another form are written");
    exit(check_end());
}

static void check_place(int kind, uint64_t size) {
    struct zg_block_view view;
    char *block = makers[kind](size);
    if (!CHECK(find(block, &view), "a block of a focused stack is isolated")) return;
    uint64_t start = (uint64_t)block, end = start + size;
    if (kind == zg_focus_start) CHECK_EQUAL(start % ZG_PAGE_BYTES, 0, "at the start of its pages");
    if (kind == zg_focus_end) CHECK_EQUAL(zg_round_up(end, 16) % ZG_PAGE_BYTES, 0, "at the end, aligned");
    if (kind == zg_focus_end) CHECK_EQUAL(start % 16, 0, "as malloc promises");
    if (kind == zg_focus_exact_end) CHECK_EQUAL(end % ZG_PAGE_BYTES, 0, "exactly at the end");
    heap_free(block);
}

int main(void) {
    int status = -1, file;
    unlink(LIST);
    static const char template[] = LIST ".new";
    FILE *list = fopen(template, "w");
    if (!CHECK(list, "the list is made")) return check_end();
    file = fileno(list);
    pid_t child = fork();
    if (child == 0) write_list(file);
    waitpid(child, &status, 0);
    CHECK_EQUAL(status, 0, "a process without a list");
    fclose(list);
    CHECK_EQUAL(rename(template, LIST), 0, "the list is complete");

    zg_runtime_start();
    CHECK(zg_focus_is_on, "stacks are focused");
    CHECK_EQUAL(zg_config.stack_overhead, ZG_NO_LIMIT_PERCENT, "stacks are recorded whole");
    static char *blocks[BLOCKS];
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t isolated = 0;
        struct zg_block_view view;
        for (int i = 0; i < BLOCKS; i++) blocks[i] = makers[kind](SIZE);
        for (int i = 0; i < BLOCKS; i++) isolated += find(blocks[i], &view);
        for (int i = 0; i < BLOCKS; i++) heap_free(blocks[i]);
        if (kind) CHECK_EQUAL(isolated, BLOCKS, "all blocks of a focused stack are isolated");
        else if (zg_config.isolated_per_context == ZG_FENCE_ALL) CHECK_EQUAL(isolated, BLOCKS, "all blocks are");
        else CHECK(isolated < BLOCKS / 4 && !!isolated == !!zg_config.isolated_per_context, "few others are");
        if (kind) check_place(kind, SIZE), check_place(kind, ODD);
    }
    CHECK_EQUAL(zg_stats_get(zg_counter_focused_blocks), (KINDS - 1) * (BLOCKS + 2), "they are counted");
    CHECK_EQUAL(zg_stats_get(zg_counter_focused_isolated), (KINDS - 1) * (BLOCKS + 2), "as isolated, too");
    unlink(LIST);
    return check_end();
}
