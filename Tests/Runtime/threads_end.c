// Threads: five hundred threads, key destructors that free and allocate, detached and cancelled threads, C11 threads.
// preload
// control

#include <pthread.h>
#include <threads.h>

#include "life.h"

static pthread_key_t keys[4];
static int destructors_run, bad_blocks;

// Frees the key's value. In the first rounds of destructors it sets a new value for the next round.
static void destroy(void *value) {
    unsigned char *block = value;
    int rounds = block[0];
    for (int i = 1; i < 100; i++)
        if (block[i] != 0x3c) __atomic_fetch_add(&bad_blocks, 1, __ATOMIC_RELAXED);
    free(block);
    free(calloc(3, 50));
    free(realloc(malloc(20), 70000));
    __atomic_fetch_add(&destructors_run, 1, __ATOMIC_RELAXED);
    if (!rounds) return;
    unsigned char *next = malloc(100);
    memset(next, 0x3c, 100);
    next[0] = (unsigned char)(rounds - 1);
    pthread_setspecific(keys[rounds % 4], next);
}

static void *with_keys(void *argument) {
    for (int i = 0; i < 4; i++) {
        unsigned char *block = malloc(100);
        memset(block, 0x3c, 100);
        block[0] = (unsigned char)((uint64_t)argument % 4);
        pthread_setspecific(keys[i], block);
    }
    return (void *)(uint64_t)work_with_blocks(50);
}

static void *one_of_many(void *argument) {
    return (void *)(uint64_t)work_with_blocks((int)(uint64_t)argument % 50 + 10);
}

static void *waiting(void *unused) {
    (void)unused;
    for (;;) {
        free(malloc(100));
        pthread_testcancel();
    }
    return NULL;
}

static void clean_up(void *block) { free(block); }

static void *waiting_with_block(void *unused) {
    (void)unused;
    void *block = malloc(4000);
    pthread_cleanup_push(clean_up, block);
    for (;;) usleep(100);
    pthread_cleanup_pop(1);
    return NULL;
}

static int c11_thread(void *unused) {
    (void)unused;
    return work_with_blocks(100);
}

static void *hand_over;
static void *free_for_other(void *unused) {
    (void)unused;
    free(hand_over);
    return NULL;
}

int main(void) {
    pthread_t thread;
    void *result;
    for (int i = 0; i < 4; i++) pthread_key_create(&keys[i], destroy);
    for (uint64_t i = 0; i < 100; i++) {
        pthread_create(&thread, NULL, with_keys, (void *)i);
        pthread_join(thread, &result);
        CHECK_EQUAL(result, 0, "a thread with destructors works");
    }
    CHECK(destructors_run >= 400, "destructors ran");
    CHECK_EQUAL(bad_blocks, 0, "destructors find their blocks as they were");
    static pthread_t many[500];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    int created = 0;
    for (uint64_t i = 0; i < 500; i++) created += pthread_create(&many[i], &attributes, one_of_many, (void *)i) == 0;
    CHECK_EQUAL(created, 500, "five hundred threads start");
    for (int i = 0; i < created; i++) {
        pthread_join(many[i], &result);
        CHECK_EQUAL(result, 0, "one of five hundred threads works");
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (uint64_t i = 0; i < 50; i++)
        CHECK_EQUAL(pthread_create(&thread, &attributes, one_of_many, (void *)i), 0, "detached threads start");
    for (int i = 0; i < 30; i++) {
        pthread_create(&thread, NULL, i % 2 ? waiting : waiting_with_block, NULL);
        usleep(500);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        CHECK(result == PTHREAD_CANCELED, "a thread is cancelled between allocations");
        CHECK_EQUAL(work_with_blocks(20), 0, "the others go on");
    }
    for (int i = 0; i < 50; i++) {
        thrd_t c11;
        int worked = 1;
        CHECK_EQUAL(thrd_create(&c11, c11_thread, NULL), thrd_success, "a C11 thread starts");
        thrd_join(c11, &worked);
        CHECK_EQUAL(worked, 0, "a C11 thread works");
    }
    for (int i = 0; i < 200; i++) {
        hand_over = malloc((size_t)i * 50);
        pthread_create(&thread, NULL, free_for_other, NULL);
        pthread_join(thread, NULL);
    }
    CHECK_EQUAL(work_with_blocks(500), 0, "the main thread works at the end");
    return check_end();
}
