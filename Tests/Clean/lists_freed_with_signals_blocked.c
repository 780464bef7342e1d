// Lists of nodes like Swift objects are freed while SIGSEGV is blocked: in handlers (also SIGSEGV's) and in a thread.
// libs: -lpthread
// musl: musl has no pthread_attr_setsigmask_np

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ROUNDS = 10, NODES = 18000, PAGE_BYTES = 4096 };

// Looks like a Swift object: a pointer, then the reference count of an immortal object (-1).
struct node {
    struct node *next;
    long value;
    char rest[240];
};

static struct node *nodes[NODES];
static char *page;

static void make_list(void) {
    struct node *head = NULL;
    for (int i = 0; i < NODES; i++) {
        nodes[i] = malloc(sizeof **nodes);
        nodes[i]->next = head;
        nodes[i]->value = -1;
        head = nodes[i];
    }
}

static void free_list(void) {
    for (int i = 0; i < NODES; i++) free(nodes[i]);
}

static void on_signal(int number) {
    (void)number;
    free_list();
}

static void on_fault(int number) {
    (void)number;
    mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE);
    free_list();
}

static void *in_thread(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        make_list();
        free_list();
    }
    return unused;
}

int main(void) {
    sigset_t all;
    sigfillset(&all);
    struct sigaction action = {.sa_handler = on_signal, .sa_mask = all};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        make_list();
        raise(SIGUSR1);
    }
    puts("in a handler");
    fflush(stdout);

    action = (struct sigaction){.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, NULL);
    page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < ROUNDS; i++) {
        make_list();
        mprotect(page, PAGE_BYTES, PROT_READ);
        *(volatile char *)page = 1;
    }
    puts("in a handler of SIGSEGV");
    fflush(stdout);

    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setsigmask_np(&attributes, &all);
    pthread_create(&thread, &attributes, in_thread, NULL);
    pthread_join(thread, NULL);
    puts("in a thread");
    return 0;
}
