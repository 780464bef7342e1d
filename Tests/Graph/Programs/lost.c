// Blocks that are lost in each way, and blocks that are kept in each way. The argument chooses the case.
// Each case prints "ready" and ends, or waits for the end of its input while another process examines it.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct node {
    struct node *next;
    char payload[56];
};

void *global_block;
static void *static_block;
static __thread void *thread_block;
static void **mapped;

// Overwrites dead stack frames and registers in which pointers may be left over.
__attribute__((noinline)) static void scrub(void) {
    volatile char room[8192];
    memset((void *)room, 0, sizeof room);
}

__attribute__((noinline)) static struct node *make_node(void) { return calloc(1, sizeof(struct node)); }

__attribute__((noinline)) static void direct(void) {
    for (int i = 0; i < 3; i++) {
        volatile char *lost = malloc(100);
        lost[0] = 1;
    }
}

__attribute__((noinline)) static void indirect(void) {
    struct node *first = make_node();
    first->next = malloc(40);
    ((struct node **)first->next)[0] = NULL;
}

__attribute__((noinline)) static void ring(void) {
    struct node *first = make_node(), *second = make_node(), *third = make_node();
    first->next = second;
    second->next = third;
    third->next = first;
}

__attribute__((noinline)) static void by_global(void) { global_block = malloc(48); }
__attribute__((noinline)) static void by_static(void) { static_block = malloc(48); }
__attribute__((noinline)) static void by_thread_local(void) { thread_block = malloc(48); }
__attribute__((noinline)) static void by_interior(void) { global_block = (char *)malloc(4000) + 1000; }
__attribute__((noinline)) static void by_chain(void) {
    struct node *head = make_node();
    global_block = head;
    for (int i = 0; i < 100; i++) head = head->next = make_node();
}
__attribute__((noinline)) static void by_mapping(void) {
    mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped[100] = malloc(48);
}
__attribute__((noinline)) static void by_tag(void) {
    global_block = (void *)((uintptr_t)malloc(48) | (UINT64_C(0xa5) << 56) | 5);
}
__attribute__((noinline)) static void by_large(void) {
    void **large = calloc(1, 8 << 20);
    large[(7 << 20) / 8] = malloc(48);
    global_block = large;
}
__attribute__((noinline)) static void large_lost(void) {
    void **large = calloc(1, 8 << 20);
    large[(7 << 20) / 8] = malloc(48);
}
__attribute__((noinline)) static void many(void) {
    for (int i = 0; i < 5000; i++) {
        struct node *node = make_node();
        node->payload[0] = (char)i;
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int is_held;

static void *hold(void *argument) {
    void *volatile own = malloc(48);
    void *volatile inner[4] = {malloc(56), argument};
    pthread_mutex_lock(&lock);
    is_held = 1;
    pthread_cond_signal(&condition);
    while (own && inner[0]) pthread_cond_wait(&condition, &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void by_other_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, hold, NULL);
    pthread_mutex_lock(&lock);
    while (!is_held) pthread_cond_wait(&condition, &lock);
    pthread_mutex_unlock(&lock);
}

static void *use_local(void *argument) {
    thread_block = malloc(64);
    return argument;
}
// The block was only in a variable of a thread that has ended.
static void by_ended_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, use_local, NULL);
    pthread_join(thread, NULL);
    // Another thread takes over the stack, and overwrites the variable.
    pthread_create(&thread, NULL, (void *(*)(void *))scrub, NULL);
    pthread_join(thread, NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"direct", direct},
    {"indirect", indirect},
    {"ring", ring},
    {"global", by_global},
    {"static", by_static},
    {"thread-local", by_thread_local},
    {"interior", by_interior},
    {"chain", by_chain},
    {"mapping", by_mapping},
    {"tag", by_tag},
    {"other-thread", by_other_thread},
    {"ended-thread", by_ended_thread},
    {"large", by_large},
    {"large-lost", large_lost},
    {"many", many},
};

static void wait_for_end(void) {
    char byte;
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) continue;
}

int main(int count, char **words) {
    if (count < 2) return 2;
    void *volatile local = strcmp(words[1], "local") ? NULL : malloc(48);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(words[1], cases[i].name) == 0) cases[i].run();
    scrub();
    if (count > 2) return 0;
    wait_for_end();
    return local != NULL;
}
