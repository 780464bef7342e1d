// usage: many [FUNCTIONS [PAUSE_MS]]: double frees in each function, PAUSE_MS apart, and at the end in the first again.

#include <stdlib.h>
#include <unistd.h>

#define FUNCTION(n)                                                                                                    \
    __attribute__((noinline)) static void twice_##n(void) {                                                            \
        char *volatile block = malloc(40);                                                                             \
        free(block);                                                                                                   \
        free(block);                                                                                                   \
        __asm__ volatile("" ::: "memory");                                                                             \
    }
#define EIGHT(m, n) m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7)
#define NAME(n) twice_##n,

/* clang-format off */
EIGHT(FUNCTION, 0) EIGHT(FUNCTION, 1) EIGHT(FUNCTION, 2) EIGHT(FUNCTION, 3)
    /* clang-format on */

    static void (*const functions[])(void) = {EIGHT(NAME, 0) EIGHT(NAME, 1) EIGHT(NAME, 2) EIGHT(NAME, 3)};

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 32, pause = argc > 2 ? atoi(argv[2]) : 0;
    for (int i = 0; i < count; i++) {
        functions[i]();
        if (pause) usleep((useconds_t)pause * 1000);
    }
    functions[0]();
    return 0;
}
