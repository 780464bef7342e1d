// Makes blocks of every kind, prints their addresses, one "NAME 0xADDRESS" a line, then "ready", and waits for the end
// of standard input. Arguments: "abort" aborts, "double-free" frees a block twice, "read" reads a freed block, "write"
// writes behind a live block and into a freed block that is still accessible, if there is one; "churn" has a thread
// that allocates and frees a block continuously.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int global_value = 42;

static void say(const char *name, const void *address) { printf("%s %p\n", name, address); }

static __attribute__((noinline)) char *make_block(size_t size) {
    char *block = malloc(size);
    memset(block, 'b', size);
    return block;
}
static __attribute__((noinline)) void drop_block(void *block) { free(block); }

static void *free_in_thread(void *block) {
    drop_block(block);
    return NULL;
}

// Changes the state of a block continuously while zguard reads it.
static char *volatile busy;
static void *churn(void *unused) {
    for (;;) {
        busy = malloc(40);
        free(busy);
    }
    return unused;
}

static char *accessible_block(void) {
    for (int i = 0; i < 4000000; i++) {
        char *block = make_block(48), byte;
        struct iovec to = {&byte, 1}, from = {block, 1};
        drop_block(block);
        if (i % 1000 == 0 && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1) return block;
    }
    return NULL;
}

int main(int count, char **arguments) {
    const char *end = count > 1 ? arguments[1] : "";
    int local = 1;
    char *live = make_block(100), *dead = make_block(101), *elsewhere = make_block(102);
    char *large = make_block(300000), *retired = make_block(3000000), *empty = malloc(0);
    char *page = make_block(4096);
    drop_block(dead);
    drop_block(retired);
    pthread_t thread;
    pthread_create(&thread, NULL, free_in_thread, elsewhere);
    pthread_join(thread, NULL);
    if (!strcmp(end, "churn")) pthread_create(&thread, NULL, churn, NULL);
    while (!strcmp(end, "churn") && !busy) usleep(1000);
    char *accessible = !strcmp(end, "write") ? accessible_block() : NULL;
    if (!strcmp(end, "write")) live[100] = '!';
    if (accessible) accessible[7] = '!';
    say("accessible", accessible);
    say("live", live);
    say("dead", dead);
    say("elsewhere", elsewhere);
    say("large", large);
    say("retired", retired);
    say("empty", empty);
    say("page", page);
    say("busy", busy);
    say("local", &local);
    say("global", &global_value);
    say("code", (void *)make_block);
    puts("ready");
    fflush(stdout);
    if (!strcmp(end, "abort")) abort();
    if (!strcmp(end, "double-free")) drop_block(dead);
    if (!strcmp(end, "read")) return ((volatile char *)retired)[7];
    while (getchar() != EOF) continue;
    return local - 1;
}
