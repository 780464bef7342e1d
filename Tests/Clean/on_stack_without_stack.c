// In threads without an alternate stack, SA_ONSTACK handlers run on the interrupted stack and can use its full depth.
// libs: -lpthread

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread uintptr_t interrupted;
static volatile int above, runs;

static void use_much(int number) {
    volatile char room[1 << 20];
    memset((void *)room, number, sizeof room);
    uintptr_t here = (uintptr_t)room;
    stack_t shown = {0};
    sigaltstack(NULL, &shown);
    runs += room[sizeof room / 2] == number && shown.ss_flags == SS_DISABLE;
    above += here < interrupted && interrupted - here < 2 * sizeof room;
}

static void *work(void *unused) {
    char local;
    interrupted = (uintptr_t)&local;
    for (int i = 0; i < 3; i++) {
        free(malloc(100));
        pthread_kill(pthread_self(), SIGUSR1);
    }
    return unused;
}

static void in_a_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
}

int main(void) {
    struct sigaction action = {.sa_handler = use_much, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    work(NULL);
    in_a_thread();
    printf("%d runs, %d on the stack below\n", runs, above);

    // One thread temporarily has an alternate stack; the other threads have none.
    stack_t mine = {.ss_sp = malloc(2 << 20), .ss_size = 2 << 20};
    sigaltstack(&mine, NULL);
    in_a_thread();
    printf("%d runs, %d on the stack below\n", runs, above);
    mine.ss_flags = SS_DISABLE;
    sigaltstack(&mine, NULL);
    free(mine.ss_sp);
    work(NULL);
    printf("%d runs, %d on the stack below\n", runs, above);
    return 0;
}
