// Accesses a freed block to which a pointer remains. Arguments: the case; the access: read (default), write or free;
// with any third argument, waits for input. A case's comment has what the finding must name first: "// case: TEXT".

#define _GNU_SOURCE
#include <pthread.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
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

// Encodes a pointer, so that searches find only the planted one. The barrier makes the compiler finish earlier stores.
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

// MARK: collections, as C programs write them

struct node {
    struct node *next;
    char *payload;
};
static struct node *queue_head;
__attribute__((noinline)) static void push(char *payload) {
    struct node *node = malloc(sizeof *node);
    *node = (struct node){queue_head, payload};
    queue_head = node;
}
// case: offset 8 of a live block of 16 bytes (allocated in push, holders.c:
__attribute__((noinline)) static uint64_t by_list(void) {
    char *block = make_block();
    for (int i = 0; i < 6; i++) push(i == 2 ? block : NULL);
    return hidden(block);
}

struct pair_entry {
    struct pair_entry *next;
    unsigned hash;
    char key[12];
    char *value;
};
static struct pair_entry **buckets;
__attribute__((noinline)) static void insert(unsigned hash, char *value) {
    struct pair_entry *entry = calloc(1, sizeof *entry);
    *entry = (struct pair_entry){buckets[hash % 64], hash, "a key", value};
    buckets[hash % 64] = entry;
}
// case: offset 24 of a live block of 32 bytes (allocated in insert, holders.c:
__attribute__((noinline)) static uint64_t by_hash_table(void) {
    buckets = calloc(64, sizeof *buckets);
    char *block = make_block();
    for (unsigned i = 0; i < 20; i++) insert(i * 37, i == 11 ? block : NULL);
    return hidden(block);
}

// case: offset 176 of a live block of 448 bytes (allocated in by_array_of_structs, holders.c:
__attribute__((noinline)) static uint64_t by_array_of_structs(void) {
    struct feed *feeds = calloc(8, sizeof *feeds);
    feeds[3].listener = make_block();
    hidden_feed = hidden(feeds);
    return hidden(feeds[3].listener);
}

static struct {
    int count;
    struct {
        long id;
        struct {
            short kind;
            char *handler;
        } slots[3];
    } shelves[5];
} registry;
// case: the global 'registry' (holders)
__attribute__((noinline)) static uint64_t by_nested_structs(void) {
    registry.shelves[4].slots[1].handler = make_block();
    __asm__ volatile("" : : "r"(&registry) : "memory");
    return hidden(registry.shelves[4].slots[1].handler);
}

struct batch {
    int count;
    char *items[];
};
// case: offset 48 of a live block of 88 bytes (allocated in by_flexible, holders.c:
__attribute__((noinline)) static uint64_t by_flexible(void) {
    struct batch *batch = calloc(1, sizeof *batch + 10 * sizeof(char *));
    batch->items[5] = make_block();
    hidden_feed = hidden(batch);
    return hidden(batch->items[5]);
}

__attribute__((noinline)) static char **grow(char **items, int room) { return realloc(items, room * sizeof *items); }
// case: offset 792 of a live block of 1024 bytes (allocated in
__attribute__((noinline)) static uint64_t by_grown(void) {
    char **items = NULL, *block = make_block();
    for (int count = 0, room = 0; count < 100; count++) {
        if (count == room) items = grow(items, room = room ? 2 * room : 4);
        items[count] = count == 99 ? block : NULL;
    }
    memset(items + 100, 0, 28 * sizeof *items);
    hidden_feed = hidden(items);
    return hidden(block);
}

static void *tree;
static int compare(const void *left, const void *right) { return left < right ? -1 : left > right; }
// case: offset 0 of a live block of 24 bytes (allocated in by_tree, holders.c:
__attribute__((noinline)) static uint64_t by_tree(void) {
    static int others[5];
    char *block = make_block();
    for (int i = 0; i < 5; i++) tsearch(&others[i], &tree, compare);
    tsearch(block, &tree, compare);
    return hidden(block);
}

static uintptr_t tagged[4];
// case: the global 'tagged' (holders)
__attribute__((noinline)) static uint64_t by_tagged(void) {
    char *block = make_block();
    tagged[2] = (uintptr_t)block | 3 | (uintptr_t)1 << 60;
    __asm__ volatile("" : : "r"(tagged) : "memory");
    return hidden(block);
}

// MARK: memory that libraries and the system keep

static ssize_t read_nothing(void *cookie, char *buffer, size_t size) {
    (void)cookie, (void)buffer, (void)size;
    return 0;
}
// case: offset 224 of a live block of 280 bytes (allocated in by_cookie, holders.c:
__attribute__((noinline)) static uint64_t by_cookie(void) {
    char *block = make_block();
    FILE *file = fopencookie(block, "r", (cookie_io_functions_t){.read = read_nothing});
    hidden_feed = hidden(file);
    return hidden(block);
}

// case: a word of memory that the program has mapped
__attribute__((noinline)) static uint64_t by_shared(void) {
    char **mapped = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mapped[3000] = make_block();
    hidden_feed = hidden(mapped);
    return hidden(mapped[3000]);
}

static void at_exit(int status, void *block) { (void)status, (void)block; }
// case: the global 'initial' (libc.so.6) | a global of libc.so.6
__attribute__((noinline)) static uint64_t by_on_exit(void) {
    char *block = make_block();
    on_exit(at_exit, block);
    return hidden(block);
}

// MARK: threads and coroutines

static pthread_key_t key;
// case: a thread-local variable of thread 1
__attribute__((noinline)) static uint64_t by_specific(void) {
    char *block = make_block();
    pthread_key_create(&key, NULL);
    pthread_setspecific(key, block);
    return hidden(block);
}

static void *keep_specific(void *unused) {
    (void)unused;
    passed = by_specific();
    pthread_setname_np(pthread_self(), "keeper");
    scrub();
    pthread_barrier_wait(&barrier);
    for (volatile int always = 1; always;) pause();
    return NULL;
}
// case: a thread-local variable of thread 2 (keeper)
__attribute__((noinline)) static uint64_t by_other_specific(void) {
    start(keep_specific);
    return passed;
}

static __thread struct {
    int depth;
    char *scratch[8];
} arena;
// case: the thread-local variable 'arena' of thread 1 (holders)
__attribute__((noinline)) static uint64_t by_thread_struct(void) {
    arena.depth++;
    arena.scratch[5] = make_block();
    __asm__ volatile("" : : "r"(&arena) : "memory");
    return hidden(arena.scratch[5]);
}

static void *wait_in_struct(void *unused) {
    (void)unused;
    struct feed feeds[3] = {{.id = 1}, {.id = 2, .listener = make_block()}, {.id = 3}};
    passed = hidden(feeds[1].listener);
    wait_with(&feeds[1].listener);
    return NULL;
}
// case: a local of wait_in_struct in thread 2 (holders)
__attribute__((noinline)) static uint64_t by_other_stack_struct(void) {
    start(wait_in_struct);
    return passed;
}

static ucontext_t scheduler, coroutine;
enum { STACK_BYTES = 1 << 16 };
__attribute__((noinline)) static void yield_with(char *volatile *local) {
    swapcontext(&coroutine, &scheduler);
    while (*local) pause();
}
static void keep_in_coroutine(void) {
    char *volatile local = make_block();
    passed = hidden(local);
    yield_with(&local);
}
static void resume_on(void *stack) {
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = STACK_BYTES;
    coroutine.uc_link = &scheduler;
    makecontext(&coroutine, keep_in_coroutine, 0);
    swapcontext(&scheduler, &coroutine);
}
// case: offset # of a live block of 65536 bytes (allocated in by_coroutine, holders.c:
__attribute__((noinline)) static uint64_t by_coroutine(void) {
    char *stack = calloc(1, STACK_BYTES);
    hidden_feed = hidden(stack);
    resume_on(stack);
    return passed;
}

// case: a word of memory that the program has mapped
__attribute__((noinline)) static uint64_t by_mapped_coroutine(void) {
    resume_on(mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    return passed;
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
    {"list", by_list},
    {"hash-table", by_hash_table},
    {"array-of-structs", by_array_of_structs},
    {"nested-structs", by_nested_structs},
    {"flexible", by_flexible},
    {"grown", by_grown},
    {"tree", by_tree},
    {"tagged", by_tagged},
    {"cookie", by_cookie},
    {"shared", by_shared},
    {"on-exit", by_on_exit},
    {"specific", by_specific},
    {"other-specific", by_other_specific},
    {"thread-struct", by_thread_struct},
    {"other-stack-struct", by_other_stack_struct},
    {"coroutine", by_coroutine},
    {"mapped-coroutine", by_mapped_coroutine},
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
        // Make this case's block only: just the first blocks of an allocation stack are isolated.
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
