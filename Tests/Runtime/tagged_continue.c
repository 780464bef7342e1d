// Profile mte with on_finding=continue: after each finding the access succeeds, the program goes on, and checks resume.
// processor: aarch64
// preload
// options: profile=mte:on_finding=continue:quarantine_bytes=0:report_path=findings-%p.jsonl
// warning: zguard

#include <pthread.h>

#include "tagged.h"

enum { SIZE = 64 };

static volatile char sink;

// Returns the number of new findings since the last call; negative if any is of another kind.
static int new_findings(const char *kind) {
    static char said[1 << 18];
    static int before;
    char path[100], text[100];
    int count = 0, all = 0, index = 0;
    snprintf(path, sizeof path, "findings-%d.jsonl", (int)getpid());
    snprintf(text, sizeof text, "\"kind\":\"%s\"", kind);
    FILE *file = fopen(path, "r");
    for (; file && fgets(said, sizeof said, file); index++) {
        if (index < before) continue;
        all++;
        count += strstr(said, text) != NULL;
    }
    if (file) fclose(file);
    before = index;
    return all == count ? count : -all;
}

static void check_dead(void) {
    char *block = malloc(SIZE);
    memset(block, 7, SIZE);
    free(block);
    for (int i = 0; i < 100; i++) sink = block[i % SIZE];
    *(volatile char *)(block + 5) = 9;
    CHECK(block[5] == 9, "what was written is read");
    CHECK_EQUAL(new_findings("use-after-free"), 1, "a dead block is a finding once");
    char *next = next_at(block, SIZE);
    CHECK(next && tag_of(next) != tag_of(block), "its place is used again, with another tag");
    memset(next, 1, SIZE);
    CHECK_EQUAL(new_findings("-"), 0, "and the new block can be used");
    sink = block[1];
    CHECK(block[2] == 1, "what others have is read, too");
    CHECK_EQUAL(new_findings("use-after-free"), 1, "and found");
    free(next);
    CHECK_EQUAL(new_findings("-"), 0, "the owner frees it");
}

static void check_behind(void) {
    char *block = malloc(SIZE), *behind = malloc(SIZE);
    for (int i = 0; i < SIZE + 40; i++) *(volatile char *)(block + i) = 1;
    CHECK_EQUAL(new_findings("heap-overflow"), 1, "a loop over a block's end is one finding");
    char *more = malloc(10);
    *(volatile char *)(more + 20) = 1;
    CHECK_EQUAL(new_findings("heap-overflow"), 1, "after the next call accesses are checked again");
    free(block), free(behind), free(more);
}

static void check_frees(void) {
    char *block = malloc(SIZE);
    free(block);
    free(block);
    CHECK_EQUAL(new_findings("double-free"), 1, "a second free is found");
    char *moved = realloc(block, 2 * SIZE);
    CHECK(moved != NULL, "a realloc of a dead block gives a new one");
    memset(moved, 1, 2 * SIZE);
    CHECK_EQUAL(new_findings("double-free"), 1, "and is found");
    free(moved);
}

static void *use_freed(void *pointer) {
    char *block = pointer;
    for (int i = 0; i < SIZE; i++) sink = block[i];
    return NULL;
}

static void check_threads(void) {
    enum { THREADS = 4 };
    char *block = malloc(SIZE);
    pthread_t threads[THREADS];
    free(block);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, use_freed, block);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    int found = new_findings("use-after-free");
    CHECK(found >= 1 && found <= THREADS, "threads use it and go on");
}

// A system call with a freed buffer does the same as without the runtime.
static void check_calls(void) {
    int ends[2];
    char *block = malloc(SIZE), got[4] = {0};
    if (pipe(ends) != 0) return;
    free(block);
    CHECK_EQUAL(write(ends[1], block, 4), 4, "the kernel reads a dead buffer");
    CHECK_EQUAL(new_findings("use-after-free"), 1, "which is found");
    CHECK_EQUAL(read(ends[0], got, 4), 4, "all of it");
    CHECK_EQUAL(write(ends[1], "abcd", 4), 4, "a pipe");
    char *other = malloc(SIZE);
    free(other);
    CHECK_EQUAL(read(ends[0], other + 3, 4), 4, "the kernel writes into a dead buffer");
    CHECK_EQUAL(new_findings("use-after-free"), 1, "which is found as well");
    close(ends[0]), close(ends[1]);
}

int main(void) {
    char path[100];
    if (has_tags()) {
        new_findings("-");
        check_dead();
        check_behind();
        check_frees();
        check_threads();
        check_calls();
    } else {
        CHECK_EQUAL(tag_of(malloc(10)), 0, "without tags in the processor there are none");
    }
    snprintf(path, sizeof path, "findings-%d.jsonl", (int)getpid());
    unlink(path);
    return check_end();
}
