// Shared by the C fuzzers: a check that ends the run, and the input as a source of numbers.

#ifndef FUZZ_H
#define FUZZ_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n  ", __FILE__, __LINE__, #condition);                                          \
            fprintf(stderr, "" __VA_ARGS__);                                                                           \
            fputc('\n', stderr);                                                                                       \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

// The input continues with zeros after its end.
struct input {
    const uint8_t *at, *end;
};

__attribute__((unused)) static uint8_t take8(struct input *input) { return input->at < input->end ? *input->at++ : 0; }
__attribute__((unused)) static uint64_t take(struct input *input, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)take8(input) << 8 * i;
    return value;
}

#endif
