// Helpers of the memory tagging tests: tags of pointers and of memory.

#ifndef TAGGED_H
#define TAGGED_H

#include <sys/auxv.h>

#include "findings.h"

enum { HAS_TAGS = 1 << 18 /* HWCAP2_MTE */, GRANULE = 16 };

static inline bool has_tags(void) { return getauxval(AT_HWCAP2) & HAS_TAGS; }
static inline uint64_t address_of(const void *pointer) { return (uint64_t)pointer & ~(UINT64_C(15) << 56); }
static inline uint32_t tag_of(const void *pointer) { return (uint64_t)pointer >> 56 & 15; }

// Returns the tag of the 16 bytes at an address.
static inline uint32_t tag_at(uint64_t address) {
    uint64_t word = address;
    __asm__ volatile(".arch_extension memtag\n ldg %0, [%0]" : "+r"(word)::"memory");
    return word >> 56 & 15;
}

// Allocates until a block lies at the address of the freed `block`. Returns NULL if that address is not reused.
static inline char *next_at(const char *block, uint64_t size) {
    for (int i = 0; i < 1000; i++) {
        char *other = malloc(size);
        if (address_of(other) == address_of(block)) return other;
        free(other);
    }
    return NULL;
}

#endif
