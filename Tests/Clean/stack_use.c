// malloc, free and similar functions use at most 2 KiB of stack (2.5 KiB on AArch64), in every state.
// libs: -pthread -Wl,-z,now
// musl: musl has no malloc_trim

// The stack use is measured on a coroutine's stack and in a new thread: at the first calls from a call site, and in
// rarer states of the runtime.

#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { stack_bytes = 256 << 10, most_blocks = 20000, paint = 0x5c };
#ifdef __aarch64__
enum { most_used = 2560 }; // AArch64 saves twice as many registers as x86-64
#else
enum { most_used = 2048 };
#endif

static ucontext_t back, there;
static char *stack, *mark;
static void (*operation)(void);
static void *blocks[most_blocks];
static int count;

// The operation's stack use is measured downward from this frame.
static void body(void) {
    char here;
    mark = &here;
    operation();
}

static void *thread_body(void *unused) {
    body();
    return unused;
}

static void on_coroutine(void) {
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = stack_bytes;
    there.uc_link = &back;
    makecontext(&there, body, 0);
    swapcontext(&back, &there);
}

static void in_thread(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, stack_bytes);
    if (pthread_create(&thread, &attributes, thread_body, NULL)) abort();
    pthread_join(thread, NULL);
}

static void measure(const char *name, void (*what)(void), void (*how)(void)) {
    memset(stack, paint, stack_bytes);
    operation = what;
    how();
    long untouched = 0;
    while (stack[untouched] == paint) untouched++;
    long used = mark - (stack + untouched);
    if (used <= most_used) printf("%s: little\n", name);
    else printf("%s: %ld bytes\n", name, used);
}

static void first(void) { free(malloc(100)); }
static void zeroed(void) { free(calloc(3, 1000)); }
static void moved(void) { free(realloc(realloc(malloc(10), 1000), 100000)); }
static void aligned(void) { free(aligned_alloc(256, 1024)); }
static void sizes(void) {
    for (size_t size = 1; size < 40000; size += size / 4 + 1) free(malloc(size));
}
static void large(void) {
    for (size_t i = 0; i < 50; i++) free(malloc(100000 + i * 50000));
    for (int i = 0; i < 5; i++) free(malloc((size_t)100 << 20));
}
static void grown(void) {
    void *block = malloc(10);
    for (size_t size = 20; size < 3000000; size += size / 3) block = realloc(block, size);
    free(block);
}
static void many(void) {
    for (int i = 0; i < most_blocks; i++) blocks[count++] = malloc((size_t)(i * 37 % 4000));
}
static void asked(void) {
    volatile size_t size = malloc_usable_size(blocks[count - 1]);
    (void)size;
}
static void many_freed(void) {
    while (count) free(blocks[--count]);
}
static void churn(void) {
    for (size_t i = 0; i < 60000; i++) free(malloc(i % 3000));
}
static void hopeless(void) { free(malloc((size_t)1 << 46)); }
static void trimmed(void) { malloc_trim(0); }
static void over_time(void) {
    for (int i = 0; i < 15; i++) {
        usleep(20000);
        for (int j = 0; j < 200; j++) free(malloc(5000));
    }
}
__attribute__((noinline)) static void descend(int depth) {
    if (depth) descend(depth - 1);
    free(malloc((size_t)(100 + depth)));
    __asm__ volatile("" ::: "memory");
}
static void deeper(void) { descend(5); }

int main(void) {
    stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return 1;
    void (*const ways[])(void) = {on_coroutine, in_thread};
    for (int i = 0; i < 2; i++) {
        puts(i ? "in a thread" : "on a coroutine's stack");
        measure("first", first, ways[i]);
        measure("again", first, ways[i]);
        measure("calloc", zeroed, ways[i]);
        measure("realloc", moved, ways[i]);
        measure("aligned", aligned, ways[i]);
        measure("deeper", deeper, ways[i]);
        measure("sizes", sizes, ways[i]);
        measure("large", large, ways[i]);
        measure("grown", grown, ways[i]);
        measure("many", many, ways[i]);
        measure("asked", asked, ways[i]);
        measure("many freed", many_freed, ways[i]);
        measure("churn", churn, ways[i]);
        measure("hopeless", hopeless, ways[i]);
        measure("trimmed", trimmed, ways[i]);
        measure("over time", over_time, ways[i]);
    }
    return 0;
}
