// Frees a block twice. The argument "other" or "third" chooses another function for this, and so another finding; with
// "wait" the program then waits for the end of its input. "many N": makes N double frees, and prints their time in
// milliseconds. "different N": makes N findings that grouping does not join.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noinline)) static void free_first(void *volatile block) {
    free(block);
    free(block);
    __asm__ volatile("");
}
__attribute__((noinline)) static void free_other(void *volatile block) {
    free(block);
    free(block);
    __asm__ volatile("" ::: "memory");
}
__attribute__((noinline)) static void free_third(void *volatile block) {
    free(block);
    free(block);
    __asm__ volatile("nop");
}

// Makes a distinct stack for each number: the bits choose the functions called.
__attribute__((noinline)) static void zero(unsigned bits, int left, void *block);
__attribute__((noinline)) static void one(unsigned bits, int left, void *block);
static void step(unsigned bits, int left, void *block) {
    if (!left) free_first(block);
    else if (bits & 1) one(bits >> 1, left - 1, block);
    else zero(bits >> 1, left - 1, block);
}
__attribute__((noinline)) static void zero(unsigned bits, int left, void *block) {
    step(bits, left, block);
    __asm__ volatile("");
}
__attribute__((noinline)) static void one(unsigned bits, int left, void *block) {
    step(bits, left, block);
    __asm__ volatile("nop");
}

#define PLACE(number)                                                                                                  \
    __attribute__((noinline)) static void place_##number(void *volatile block) {                                       \
        free(block);                                                                                                   \
        free(block);                                                                                                   \
        __asm__ volatile("# " #number);                                                                                \
    }
#define TEN(X, tens)                                                                                                   \
    X(tens##0) X(tens##1) X(tens##2) X(tens##3) X(tens##4) X(tens##5) X(tens##6) X(tens##7) X(tens##8) X(tens##9)
#define THIRTY(X) TEN(X, 1) TEN(X, 2) TEN(X, 3)
THIRTY(PLACE)
#define ENTRY(number) place_##number,
static void (*const places[])(void *volatile) = {THIRTY(ENTRY)};

int main(int count, char **words) {
    const char *word = count > 1 ? words[1] : "";
    int number = count > 2 ? atoi(words[2]) : 0;
    if (!strcmp(word, "many")) {
        struct timespec start, end;
        puts("began");
        fflush(stdout);
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = 0; i < number; i++) step((unsigned)i, 9, malloc(24));
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("took %ld\n", (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000);
        fflush(stdout);
        return 0;
    }
    if (!strcmp(word, "different")) {
        for (int i = 0; i < number; i++) places[i](malloc(24));
        return 0;
    }
    void (*freed)(void *volatile) = !strcmp(word, "other")   ? free_other
                                    : !strcmp(word, "third") ? free_third
                                                             : free_first;
    freed(malloc(24));
    puts("found");
    fflush(stdout);
    if (!strcmp(word, "wait"))
        while (getchar() != EOF) {
        }
    return 0;
}
