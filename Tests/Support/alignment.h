// The alignment of blocks, for programs that check it.

#ifndef ALIGNMENT_H
#define ALIGNMENT_H

#include <stdint.h>

// Returns the alignment that malloc promises: the size rounded up to a power of two, from 2 to 16; 16 for 0 bytes.
__attribute__((unused)) static uint64_t promised_alignment(uint64_t size) {
    uint64_t alignment = 2;
    while (alignment < size && alignment < 16) alignment *= 2;
    return size ? alignment : 16;
}

#endif
