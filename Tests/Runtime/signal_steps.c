// A signal handler allocates and frees after every single instruction of malloc, realloc and free.
// slow
// preload
// timeout: 240

#include <pthread.h>
#include <threads.h>

#include "life.h"

#if defined(__x86_64__)

// With the trap flag set, each instruction raises SIGTRAP. The kernel clears the flag while the handler runs.
static inline void steps_on(void) { __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc"); }
static inline void steps_off(void) { __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc"); }

enum { PREPARED = 60000 };
static void **prepared; // blocks for the handler to free
static size_t prepared_count, prepared_used;
static uint64_t steps, failures;
static int mode; // operations of the handler: 1 malloc, 2 free, 4 realloc

static void on_step(int number) {
    (void)number;
    steps++;
    if (mode & 1) {
        unsigned char *block = malloc(40);
        if (!block) failures++;
        else block[39] = 1;
        free(block);
    }
    if ((mode & 2) && prepared_used < prepared_count) free(prepared[prepared_used++]);
    if (mode & 4) {
        unsigned char *block = malloc(30);
        block[29] = 7;
        block = realloc(block, 300);
        if (!block || block[29] != 7) failures++;
        free(block);
    }
}

static void prepare(size_t count) {
    prepared_used = 0;
    prepared_count = count;
    for (size_t i = 0; i < count; i++) {
        prepared[i] = malloc(48);
        memset(prepared[i], 0x77, 48);
    }
}

static void free_rest(void) {
    while (prepared_used < prepared_count) free(prepared[prepared_used++]);
}

static void run(const char *what, int handler_mode, int rounds, size_t size) {
    void *held[100];
    if (handler_mode & 2) prepare(60000);
    mode = handler_mode;
    uint64_t before = steps;
    steps_on();
    for (int i = 0; i < rounds; i++) {
        unsigned char *block = malloc(size);
        block[0] = 1;
        held[i] = realloc(block, size + 30);
    }
    for (int i = 0; i < rounds; i++) free(held[i]);
    steps_off();
    CHECK(steps - before > (uint64_t)rounds * 50, what);
    CHECK_EQUAL(failures, 0, what);
    if (handler_mode & 2) free_rest();
    CHECK_EQUAL(work_with_blocks(200), 0, "the heap is well afterwards");
}

// The handler allocates at one step only, one step later in each new thread. Up to that step the runtime does not know
// the thread: thrd_create is not intercepted, so that the runtime meets the thread at its first allocation.
static __thread uint64_t thread_steps;
static uint64_t act_at;

static void on_one_step(int number) {
    (void)number;
    if (++thread_steps == act_at) free(malloc(40));
}

static int first_allocation(void *unused) {
    (void)unused;
    steps_on();
    void *block = malloc(20);
    steps_off();
    free(block);
    return thread_steps > act_at ? block == NULL : 1000;
}

static int first_allocations(void) {
    struct sigaction action = {.sa_handler = on_one_step};
    sigaction(SIGTRAP, &action, NULL);
    free(malloc(20));
    // Every one of the first 300 instructions, then every fifth: the rest is long and repetitive.
    for (act_at = 1; act_at < 3000; act_at += act_at < 300 ? 1 : 5) {
        thrd_t thread;
        int result = 1;
        thrd_create(&thread, first_allocation, NULL);
        thrd_join(thread, &result);
        if (result == 1000) return act_at > 50 ? 0 : 4;
        if (result) return 5;
    }
    return 0;
}

// In each round, the runtime's key destructor runs before those of later keys. Single-stepping ends in the last round.
static pthread_key_t key;
static void last_round(void *value) {
    uint64_t round = (uint64_t)value;
    free(malloc(100));
    if (round < 4) pthread_setspecific(key, (void *)(round + 1));
    else steps_off();
}

static void *last_frees(void *unused) {
    (void)unused;
    mode = 1;
    pthread_setspecific(key, (void *)1);
    free(malloc(100));
    steps_on();
    return NULL;
}

int main(int count, char **words) {
    struct sigaction action = {.sa_handler = on_step};
    sigaction(SIGTRAP, &action, NULL);
    prepared = calloc(PREPARED, sizeof *prepared);
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "first") == 0) return first_allocations();
    if (strcmp(what, "last") == 0) {
        pthread_t thread;
        pthread_key_create(&key, last_round);
        pthread_create(&thread, NULL, last_frees, NULL);
        pthread_join(thread, NULL);
        return steps > 100 ? 0 : 5;
    }
    if (strcmp(what, "allocate") == 0) {
        run("malloc at every instruction", 1, 70, 100);
        run("malloc at every instruction, large blocks", 1, 2, 40000);
        return check_failures != 0;
    }
    if (strcmp(what, "free") == 0) {
        run("free at every instruction", 2, 70, 100);
        run("free at every instruction, large blocks", 2, 2, 40000);
        return check_failures != 0;
    }
    if (strcmp(what, "resize") == 0) {
        run("realloc at every instruction", 4, 40, 100);
        run("all at every instruction", 7, 40, 1000);
        return check_failures != 0;
    }
    CHECK_EQUAL(life_run_self("allocate", NULL), 0, "a handler that allocates at every instruction");
    CHECK_EQUAL(life_run_self("free", NULL), 0, "a handler that frees at every instruction");
    CHECK_EQUAL(life_run_self("resize", NULL), 0, "a handler that resizes at every instruction");
    CHECK_EQUAL(life_run_self("first", NULL), 0,
                "a handler that allocates while its thread is seen for the first time");
    CHECK_EQUAL(life_run_self("last", NULL), 0, "a handler that allocates while its thread ends");
    return check_end();
}

#else
int main(void) {
    CHECK(1, "no single steps on this processor");
    return check_end();
}
#endif
