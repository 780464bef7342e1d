// Scenarios in which threads and processes end, with destructors and handlers that allocate, free and use freed
// memory.

#include "scenario.h"

#include <semaphore.h>
#include <threads.h>

static pthread_key_t keys[6];
static tss_t c11_keys[3];
static int rounds_run, wrong_blocks;

static void destroy(void *value) {
    unsigned char *block = value;
    int left = block[0];
    if (block[99] != 0x3c) __atomic_fetch_add(&wrong_blocks, 1, __ATOMIC_RELAXED);
    free(block);
    __atomic_fetch_add(&rounds_run, 1, __ATOMIC_RELAXED);
    if (work_with_blocks(3)) __atomic_fetch_add(&wrong_blocks, 1, __ATOMIC_RELAXED);
    if (left == 0) return;
    unsigned char *next = calloc(1, 100);
    next[0] = (unsigned char)(left - 1);
    next[99] = 0x3c;
    pthread_setspecific(keys[left % 6], next);
}

static void *block_for_round(int left) {
    unsigned char *block = calloc(1, 100);
    block[0] = (unsigned char)left;
    block[99] = 0x3c;
    return block;
}

static void *with_keys(void *unused) {
    for (int i = 0; i < 6; i++) pthread_setspecific(keys[i], block_for_round(i % 4));
    for (int i = 0; i < 3; i++) tss_set(c11_keys[i], block_for_round(0));
    (void)unused;
    return (void *)(uint64_t)work_with_blocks(20);
}

static void destructors(void) {
    for (int i = 0; i < 6; i++) pthread_key_create(&keys[i], destroy);
    for (int i = 0; i < 3; i++) tss_create(&c11_keys[i], destroy);
    for (int i = 0; i < 40; i++) {
        pthread_t thread;
        void *result = (void *)1;
        if (pthread_create(&thread, NULL, with_keys, NULL) == 0) pthread_join(thread, &result);
        MUST(result == NULL, "a thread with destructors works");
    }
    MUST(rounds_run >= 40 * 9, "destructors ran");
    MUST(wrong_blocks == 0, "and found their blocks as they were");
}

// In the last round of key destructors, the runtime's own destructor has already run. If the thread still calls the
// runtime, these calls use a thread state that all such threads share.
static pthread_key_t last_key;
static void last_rounds(void *value) {
    uint64_t round = (uint64_t)value;
    if (round < 4) pthread_setspecific(last_key, (void *)(round + 1));
    else plant();
}
static void *ends_with_plant(void *unused) {
    pthread_setspecific(last_key, (void *)1);
    return unused;
}
static void bug_in_destructor(void) {
    pthread_key_create(&last_key, last_rounds);
    pthread_t thread;
    pthread_create(&thread, NULL, ends_with_plant, NULL);
    pthread_join(thread, NULL);
}

// --- cancelling ------------------------------------------------------------------------------------------------------

static sem_t reached;
static void free_it(void *block) { free(block); }
static void *cancelled_deferred(void *unused) {
    void *block = malloc(4000);
    pthread_cleanup_push(free_it, block);
    sem_post(&reached);
    for (;;) {
        work_with_blocks(1);
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return unused;
}
static void *cancelled_asynchronously(void *unused) {
    void *block = malloc(4000);
    volatile uint64_t count = 0;
    pthread_cleanup_push(free_it, block);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    sem_post(&reached);
    for (;;) count++;
    pthread_cleanup_pop(1);
    return unused;
}
// A thread must not be canceled inside malloc (libc's or the runtime's), so it enables asynchronous cancellation only
// between the calls, as libc's functions do.
static void *cancelled_in_malloc(void *unused) {
    void *block = malloc(4000);
    int type;
    pthread_cleanup_push(free_it, block);
    sem_post(&reached);
    for (;;) {
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
        free(malloc(100));
    }
    pthread_cleanup_pop(1);
    return unused;
}
static void cancelling(void) {
    void *(*const how[])(void *) = {cancelled_deferred, cancelled_asynchronously, cancelled_in_malloc};
    sem_init(&reached, 0, 0);
    for (int i = 0; i < 60; i++) {
        pthread_t thread;
        void *result = NULL;
        MUST(pthread_create(&thread, NULL, how[i % 3], NULL) == 0, "a thread to be cancelled");
        while (sem_wait(&reached) != 0) {
        }
        if (i % 2) usleep((unsigned)i * 10);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        MUST(result == PTHREAD_CANCELED, "is cancelled");
        MUST(work_with_blocks(20) == 0, "the others work");
    }
}

// --- the main thread leaves first ------------------------------------------------------------------------------------

static pthread_t main_thread;
static void *outlives(void *unused) {
    pthread_join(main_thread, NULL);
    int wrong = work_with_blocks(1000);
    pthread_t thread;
    void *result = (void *)1;
    if (pthread_create(&thread, NULL, with_keys, NULL) == 0) pthread_join(thread, &result);
    MUST(!wrong && !result, "threads work without the main thread");
    pid_t child = fork();
    if (child == 0) {
        int worked = work_with_blocks(100);
        plant();
        _exit(worked);
    }
    MUST(planted_well(status_of(child)), "a child of what is left");
    say("the last");
    plant();
    return unused;
}
static void without_main(void) {
    pthread_t thread;
    main_thread = pthread_self();
    for (int i = 0; i < 6; i++) pthread_key_create(&keys[i], destroy);
    for (int i = 0; i < 3; i++) tss_create(&c11_keys[i], destroy);
    pthread_create(&thread, NULL, outlives, NULL);
    pthread_exit(malloc(50));
}

// --- the end of the process ------------------------------------------------------------------------------------------

static void *late_use;
static void use_at_end(void) {
    free(late_use);
    MUST(work_with_blocks(200) == 0, "an exit handler works");
    plant();
}
static void at_exit(void) {
    late_use = malloc(300);
    atexit(use_at_end);
    say("exit");
    exit(0);
}
static void at_quick_end(void) {
    free(late_use);
    MUST(work_with_blocks(200) == 0, "a handler of quick_exit works");
    plant();
}
static void at_quick(void) {
    late_use = malloc(300);
    at_quick_exit(at_quick_end);
    say("quick_exit");
    quick_exit(0);
}

// Children call exit while their other threads run the heap's code, anywhere in it. No child may hang or crash.
static void *quiet_churn(void *unused) {
    for (;;) work_with_blocks(100);
    return unused;
}
static void exit_of_busy(void) {
    for (int i = 0; i < 16; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            for (int j = 0; j < 3; j++) pthread_create(&thread, NULL, quiet_churn, NULL);
            usleep((unsigned)i * 700);
            if (i % 4 == 3) plant();
            if (i % 3) exit(0);
            quick_exit(0);
        }
        int status = status_of(child);
        MUST(i % 4 == 3 ? planted_well(status) : status == 0, "a process ends while its threads are in the heap");
    }
}

static void *exits(void *unused) {
    say("exit from a thread");
    plant();
    exit(0);
    return unused;
}
static void exit_from_thread(void) {
    pthread_t thread, other;
    pthread_create(&other, NULL, quiet_churn, NULL);
    pthread_create(&thread, NULL, exits, NULL);
    pthread_join(thread, NULL);
}

__attribute__((destructor)) static void destructor_of_program(void) {
    if (!late_use) return;
    late_use = malloc(20);
    free(late_use);
}

const struct scenario scenarios[] = {
    {"destructors", destructors, ""},
    {"bug-in-destructor", bug_in_destructor, "inside=1"},
    {"cancelling", cancelling, ""},
    {"without-main", without_main, "findings=2"},
    {"at-exit", at_exit, ""},
    {"at-quick-exit", at_quick, ""},
    {"exit-of-busy", exit_of_busy, "findings=5"},
    {"exit-from-thread", exit_from_thread, ""},
    {NULL, NULL, NULL},
};
