// Imitates a guarded process with a forged statistics page. A number on standard input is the seed of a new forgery;
// "change" and "truncate" start a thread that changes or truncates the page all the time; "stay" does nothing. Answers
// each line with a line of addresses to query. If the library is preloaded, changes the real page of a real heap.
//
// usage: liar HOW [FILE]
//   sealed    a page like the runtime's
//   changing  a page like the runtime's, for "change"
//   unsealed  a page without seals, for "truncate"
//   foreign   a sealed page made by root, in a process of another user
//   file      a mapping of FILE, which resembles a page only by its name
//   borrowed  a read-only mapping of FILE
//   many      a sealed page behind up to twenty thousand descriptors, among twenty thousand mappings

#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "include/zg_block.h"
#include "include/zg_stats_page.h"

#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif

enum { NOBODY = 65534, SOUP_BYTES = 16 << 20 };

static struct zg_stats_page *page;
static char original[ZG_STATS_BYTES];
static uint64_t state, soup, desert, desert_bytes;

static uint64_t next(void) { // xorshift64
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

// Returns a value that may break a reader: an edge value, a huge or small count, or an address in the page, in memory
// full of records, or in a terabyte of zeros.
static uint64_t value(void) {
    switch (next() % 12) {
    case 0: return 0;
    case 1: return UINT64_MAX - next() % 64;
    case 2: return UINT64_C(1) << next() % 64;
    case 3: return (UINT64_C(1) << next() % 64) - 1;
    case 4: return next();
    case 5: return next() % 100000;
    case 6: return desert + next() % desert_bytes / 16 * 16;
    case 7: return (uint64_t)page + next() % ZG_STATS_BYTES / 8 * 8;
    case 8: return INT64_MAX - next() % 4096;
    case 9: return next() % 64;
    default: return soup + next() % SOUP_BYTES / 8 * 8;
    }
}

// Fills memory in which every word may be the header of a record, a size or an address.
static void fill_soup(void) {
    uint64_t *words = (uint64_t *)soup;
    for (uint64_t i = 0; i < SOUP_BYTES / 8; i++) {
        uint64_t kind = next() % 4;
        uint32_t states[] = {zg_state_quarantined, zg_state_live, zg_state_held, zg_state_retired};
        words[i] = kind == 0   ? value()
                   : kind == 1 ? (states[next() % 4] | (next() & 0xf700)) | next() << 32
                   : kind == 2 ? zg_state_quarantined | (next() & 0xc000) | next() % 4096 << 32
                               : next() % 65536;
    }
}

static void keep_head(void) {
    page->magic = ZG_STATS_MAGIC;
    page->version = ZG_STATS_VERSION;
    page->bytes = sizeof *page;
    page->pid = (uint32_t)getpid();
    page->layout.block_bytes = sizeof(struct zg_block);
    page->layout.death_bytes = sizeof(struct zg_death);
    page->layout.span_bytes = sizeof(struct zg_span);
    page->layout.node_bytes = sizeof(struct zg_depot_node);
    page->layout.windows.record_bytes = sizeof(struct zg_alias);
}

// Makes tables whose addresses are plausible, but whose counts may be huge.
static void make_plausible(void) {
    struct zg_layout *layout = &page->layout;
    layout->class_count = ZG_LAYOUT_MAX_CLASSES;
    for (int i = 0; i < ZG_LAYOUT_MAX_CLASSES; i++)
        layout->classes[i] = (struct zg_layout_class){.slots_base = next() % 2 ? soup : desert,
                                                      .blocks_base = next() % 2 ? soup : desert,
                                                      .deaths_base = soup,
                                                      .slots_used = value(),
                                                      .slot_bytes = 1u << next() % 32,
                                                      .trap_isa = value(),
                                                      .trap_side = value(),
                                                      .trap_word = value()};
    layout->spans_base = next() % 2 ? soup : desert;
    layout->spans_used = value();
    layout->nodes_base = soup;
    layout->nodes_used = UINT64_MAX;
    layout->windows.base = next() % 2 ? soup : desert;
    layout->windows.bytes = value();
    layout->windows.records = next() % 2 ? soup : desert;
    layout->windows.page_bytes = 1u << next() % 13;
    layout->slabs_base = soup, layout->slabs_bytes = desert_bytes, layout->slabs_shift = (uint32_t)(next() % 64);
    layout->large = (struct zg_layout_area){soup, value(), soup, 1 + next() % 4096};
    layout->isolated = (struct zg_layout_area){desert, value(), soup, 1 + next() % 4096};
    layout->traps = (struct zg_traps){.base = 0x1000,
                                      .bytes = UINT64_MAX,
                                      .isa = 0x1000,
                                      .side = value(),
                                      .words = value(),
                                      .slots_shift = 1 + (uint32_t)(next() % 32),
                                      .words_shift = 4 + (uint32_t)(next() % 44)};
    layout->trap_slots_shift = (uint32_t)(next() % 66);
    layout->trap_words_shift = (uint32_t)(next() % 66);
    layout->class_table = soup, layout->class_table_count = UINT32_MAX;
    layout->counts.base = soup;
}

static void lie(uint64_t seed) {
    state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (int i = 0; i < 8; i++) next();
    memcpy(page, original, ZG_STATS_BYTES);
    if (seed % 16 == 0) fill_soup();
    uint64_t *words = (uint64_t *)page;
    uint64_t first = offsetof(struct zg_stats_page, degradations) / 8, count = sizeof *page / 8 - first;
    switch (seed % 4) {
    case 0:
        for (uint64_t i = 0; i < count; i++) words[first + i] = next();
        break;
    case 1:
        for (uint64_t i = 0; i < count; i++) words[first + i] = value();
        break;
    case 2: make_plausible(); break;
    default: break;
    }
    // Overwrites a few words and half words, whichever way the page was filled.
    for (uint64_t i = next() % 20 + 1; i > 0; i--) words[first + next() % count] = value();
    for (uint64_t i = next() % 20; i > 0; i--) ((uint32_t *)(words + first))[next() % (2 * count)] = (uint32_t)value();
    keep_head();
    if (seed % 9 == 8) ((uint32_t *)page)[next() % 8] = (uint32_t)value();
}

static void *keep_changing(void *unused) {
    (void)unused;
    for (uint64_t seed = 1;; seed++) {
        lie(seed);
        usleep(50);
    }
    return NULL;
}

static int descriptor;

static void *keep_truncating(void *unused) {
    (void)unused;
    for (;;) {
        if (ftruncate(descriptor, 0)) abort();
        for (volatile int i = 0; i < 2000; i++) {
        }
        if (ftruncate(descriptor, ZG_STATS_BYTES) || pwrite(descriptor, original, ZG_STATS_BYTES, 0) < 0) abort();
        for (volatile int i = 0; i < 20000; i++) {
        }
    }
    return NULL;
}

static void find_real_page(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    while (fgets(line, sizeof line, maps)) {
        uint64_t start;
        if (strstr(line, "/memfd:" ZG_STATS_NAME) && sscanf(line, "%" SCNx64, &start) == 1) page = (void *)start;
    }
    fclose(maps);
}

static void start(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL)) abort();
}

// Makes a heap with every kind of table entry: live and freed blocks of all sizes.
static void use_heap(void) {
    static void *blocks[4000];
    for (unsigned i = 0; i < 4000; i++) blocks[i] = malloc(i * 97 % 9000 + (i % 500 == 0) * 3000000 + 1);
    for (unsigned i = 0; i < 4000; i += 2) free(blocks[i]);
}

static void become_nobody(void) {
    if (geteuid() != 0) return;
    if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)) abort();
    // The kernel makes a process that changed its user undumpable; allow others to inspect it.
    prctl(PR_SET_DUMPABLE, 1);
}

int main(int words_count, char **words) {
    const char *how = words_count > 1 ? words[1] : "sealed";
    const char *file = words_count > 2 ? words[2] : NULL;
    bool is_foreign = !strcmp(how, "foreign");
    if (!is_foreign) become_nobody();
    use_heap();
    desert_bytes = UINT64_C(1) << 40;
    desert =
        (uint64_t)mmap(NULL, desert_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    soup = (uint64_t)mmap(NULL, SOUP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (desert == (uint64_t)MAP_FAILED || soup == (uint64_t)MAP_FAILED) return 2;
    if (!strcmp(how, "many")) {
        struct rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        int null = open("/dev/null", O_RDONLY), most = limit.rlim_cur > 20000 ? 20000 : (int)limit.rlim_cur - 40;
        while (dup(null) < most) {
        }
        for (int i = 0; i < 20000; i++)
            if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
                break;
    }
    find_real_page();
    if (!page) {
        bool is_sealed = strcmp(how, "unsealed") != 0;
        bool is_borrowed = !strcmp(how, "borrowed");
        descriptor = file ? open(file, is_borrowed ? O_RDONLY : O_RDWR)
                          : (int)syscall(SYS_memfd_create, ZG_STATS_NAME, 2u /* MFD_ALLOW_SEALING */);
        if (descriptor < 0 || (!is_borrowed && ftruncate(descriptor, ZG_STATS_BYTES))) return 2;
        if (!file) fchmod(descriptor, 0600);
        if (is_sealed) fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        page = mmap(NULL, ZG_STATS_BYTES, PROT_READ | (is_borrowed ? 0 : PROT_WRITE), MAP_SHARED, descriptor, 0);
        if (page == MAP_FAILED) return 2;
        if (!is_borrowed) strcpy(page->program, "/usr/bin/liar"), keep_head();
    }
    memcpy(original, page, ZG_STATS_BYTES);
    if (is_foreign) become_nobody();
    state = 88172645463325252u;
    fill_soup();
    struct stat status;
    fstat(descriptor, &status);
    printf("%" PRIu64 "\n", (uint64_t)status.st_ino);
    fflush(stdout);
    uint64_t traps = 0; // the page's traps.base, copied because reading a truncated page faults
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "truncate\n")) {
            start(keep_truncating);
        } else if (!strcmp(line, "change\n")) {
            start(keep_changing);
        } else if (strcmp(line, "stay\n")) {
            lie(strtoull(line, NULL, 10));
            traps = page->layout.traps.base;
        }
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", soup + next() % SOUP_BYTES,
               desert + next() % desert_bytes, value(), traps + next() % 65536);
        fflush(stdout);
    }
    return 0;
}
