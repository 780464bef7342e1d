// A freed block to which something still points, and an access to the block. Words: who holds it, and how it is used:
// read (default), write, or free; a third one: wait for a line of input first. Each case says in a comment what the finding must name first: "// case: TEXT".

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct feed {
    long id;
    char *listener;
    char rest[40];
};

enum { BYTES = 200 };
static pthread_barrier_t barrier;

// Overwrites dead stack frames in which pointers may be left over.
__attribute__((noinline)) static void scrub(void) {
    volatile char room[16384];
    memset((void *)room, 0, sizeof room);
}

__attribute__((noinline)) static char *make_block(void) {
    char *block = malloc(BYTES);
    memset(block, 1, BYTES);
    return block;
}

// Pointers are kept encoded on the way, so that only the planted one remains. What was stored by now is in memory.
static uint64_t hidden(void *pointer) {
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return ~(uint64_t)pointer;
}
#define PLAIN(hidden) ((char *)~(hidden))

char *current;
// case: the global 'current' (holders)
__attribute__((noinline)) static uint64_t by_global(void) {
    current = make_block();
    return hidden(current);
}

char *table[100];
// case: the global 'table' (holders)
__attribute__((noinline)) static uint64_t by_array(void) {
    table[77] = make_block();
    return hidden(table[77]);
}

// case: the global 'cached' (holders)
__attribute__((noinline)) static uint64_t by_static(void) {
    static char *cached;
    cached = make_block();
    __asm__ volatile("" : : "r"(&cached) : "memory");
    return hidden(cached);
}

static struct {
    long before;
    char *second;
} pair = {1, NULL};
// case: the global 'pair' (holders)
__attribute__((noinline)) static uint64_t by_global_struct(void) {
    pair.second = make_block();
    __asm__ volatile("" : : "r"(&pair) : "memory");
    return hidden(pair.second);
}

static uint64_t hidden_feed;
__attribute__((noinline)) static struct feed *open_feed(void) { return calloc(1, sizeof(struct feed)); }
// case: offset 8 of a live block of 56 bytes (allocated in
__attribute__((noinline)) static uint64_t by_struct(void) {
    struct feed *feed = open_feed();
    feed->listener = make_block();
    hidden_feed = hidden(feed);
    return hidden(feed->listener);
}

// case: offset 8 of a live block of 56 bytes (allocated in
__attribute__((noinline)) static uint64_t by_interior(void) {
    struct feed *feed = open_feed();
    char *block = make_block();
    feed->listener = block + 100;
    hidden_feed = hidden(feed);
    return hidden(block);
}

// case: offset 72000 of a live block of 800000 bytes (allocated in by_large, holders.c:
__attribute__((noinline)) static uint64_t by_large(void) {
    char **large = malloc(800000);
    memset(large, 0, 800000);
    large[9000] = make_block();
    hidden_feed = hidden(large);
    return hidden(large[9000]);
}

static __thread long before_it = 1;
static __thread char *volatile thread_block;
// case: the thread-local variable 'thread_block' of thread 1 (holders)
__attribute__((noinline)) static uint64_t by_thread_local(void) {
    before_it++;
    thread_block = make_block();
    return hidden(thread_block);
}

static uint64_t passed;
static void *keep_in_thread(void *unused) {
    (void)unused;
    thread_block = make_block();
    passed = hidden(thread_block);
    pthread_setname_np(pthread_self(), "keeper");
    scrub();
    pthread_barrier_wait(&barrier);
    for (volatile int always = 1; always;) pause();
    return NULL;
}
static void start(void *(*function)(void *)) {
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, function, NULL);
    pthread_barrier_wait(&barrier);
}
// case: the thread-local variable 'thread_block' of thread 2 (keeper)
__attribute__((noinline)) static uint64_t by_other_thread_local(void) {
    start(keep_in_thread);
    return passed;
}

__attribute__((noinline)) static void wait_with(char *volatile *local) {
    pthread_barrier_wait(&barrier);
    while (*local) pause();
}
static void *keep_on_stack(void *unused) {
    (void)unused;
    char *volatile local = make_block();
    passed = hidden(local);
    wait_with(&local);
    return NULL;
}
// case: a local of keep_on_stack in thread 2 (holders)
__attribute__((noinline)) static uint64_t by_other_stack(void) {
    start(keep_on_stack);
    return passed;
}

// case: a word of memory that the program has mapped
__attribute__((noinline)) static uint64_t by_mapping(void) {
    char **mapped = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped[1000] = make_block();
    hidden_feed = hidden(mapped);
    return hidden(mapped[1000]);
}

// case: -
__attribute__((noinline)) static uint64_t by_nobody(void) { return hidden(make_block()); }

// case: a local of use_local
__attribute__((noinline)) static uint64_t by_local(void) { return hidden(make_block()); }

static char *huge_holder;
// case: the global 'huge_holder' (holders)
__attribute__((noinline)) static uint64_t by_huge(void) {
    // Memory whose search takes longer than a millisecond.
    static char **rooms[64];
    for (int i = 0; i < 64; i++) memset(rooms[i] = malloc(1 << 20), 1, 1 << 20);
    huge_holder = make_block();
    __asm__ volatile("" : : "r"(rooms), "r"(&huge_holder) : "memory");
    return hidden(huge_holder);
}

static const struct {
    const char *name;
    uint64_t (*make)(void);
} cases[] = {
    {"global", by_global},
    {"array", by_array},
    {"static", by_static},
    {"global-struct", by_global_struct},
    {"struct", by_struct},
    {"interior", by_interior},
    {"large", by_large},
    {"thread-local", by_thread_local},
    {"other-thread-local", by_other_thread_local},
    {"other-stack", by_other_stack},
    {"mapping", by_mapping},
    {"nobody", by_nobody},
    {"local", by_local},
    {"huge", by_huge},
};

__attribute__((noinline)) static void drop(uint64_t block) { free(PLAIN(block)); }

__attribute__((noinline)) static int use(uint64_t block, const char *how) {
    volatile char *pointer = PLAIN(block);
    if (how[0] == 'f') free((void *)pointer);
    else if (how[0] == 'w') pointer[16] = 5;
    else return pointer[16];
    return 0;
}

__attribute__((noinline)) static int use_local(uint64_t block, const char *how) {
    char *volatile local = PLAIN(block);
    int result = use(block, how);
    return result + (local == NULL);
}

// Distinct findings: each of these functions has its own access.
#define USES(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define DEFINE(number)                                                                                                 \
    __attribute__((noinline)) static int use_##number(uint64_t block) {                                                \
        return *(volatile char *)(PLAIN(block) + number);                                                              \
    }
USES(DEFINE)
#define CALL(number) sum += use_##number(blocks[number]) + use_##number(blocks[number]);

static int use_many(void) {
    uint64_t blocks[10];
    int sum = 0;
    for (int i = 0; i < 10; i++) {
        char *block = make_block();
        blocks[i] = hidden(block);
        free(block);
    }
    USES(CALL)
    printf("went on %d\n", sum & 1);
    return 0;
}

int main(int count, char **words) {
    const char *name = count > 1 ? words[1] : "", *how = count > 2 ? words[2] : "read";
    if (!strcmp(name, "many")) return use_many();
    for (unsigned long i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, name)) continue;
        // Only the first blocks of an allocation stack have pages of their own, where each access faults.
        uint64_t block = cases[i].make();
        drop(block);
        scrub();
        if (count > 3) {
            puts("ready");
            fflush(stdout);
            getchar();
        }
        int result = strcmp(name, "local") ? use(block, how) : use_local(block, how);
        printf("went on %d\n", result & 1);
        fflush(stdout);
        exit(0); // other threads wait for ever
    }
    fprintf(stderr, "no such case: %s\n", name);
    return 2;
}
