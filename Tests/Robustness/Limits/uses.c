// A program that needs little memory: `uses KIB` allocates, fills and frees KIB in blocks of several sizes, in two
// threads that run in turn, and prints a line.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t most;

static void *work(void *unused) {
    static const size_t sizes[] = {16, 40, 100, 250, 1000, 5000, 20000, 70000};
    void *blocks[2000];
    for (int round = 0; round < 3; round++) {
        size_t got = 0;
        int count = 0;
        for (; count < 2000 && got < most; count++) {
            size_t bytes = sizes[count % 8];
            if (!(blocks[count] = malloc(bytes))) exit(3);
            memset(blocks[count], count, bytes);
            got += bytes;
        }
        while (count) free(blocks[--count]);
    }
    return unused;
}

int main(int count, char **words) {
    pthread_attr_t small;
    pthread_t thread;
    most = (count > 1 ? strtoul(words[1], NULL, 0) : 100) << 10;
    work(NULL);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    if (pthread_create(&thread, &small, work, NULL) != 0) return 2;
    pthread_join(thread, NULL);
    puts("done");
    return 0;
}
