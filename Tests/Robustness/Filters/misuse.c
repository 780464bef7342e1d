// Misuses memory or crashes, under a seccomp filter installed before its start. usage: misuse WAY
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile nothing;

__attribute__((noinline)) static void free_twice(void) {
    char *volatile block = malloc(40);
    free(block);
    free(block);
}
__attribute__((noinline)) static void follow_null(void) { *(volatile int *)nothing = 1; }

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    // Large blocks make the runtime use other system calls than small ones.
    for (int i = 0; i < 50; i++) free(memset(malloc(200000), i, 100000));
    if (!strcmp(way, "twice")) free_twice();
    if (!strcmp(way, "null")) follow_null();
    if (!strcmp(way, "abort")) {
        fprintf(stderr, "out of cheese\n");
        abort();
    }
    puts("done");
    return 0;
}
