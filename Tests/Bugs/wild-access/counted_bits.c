// A bit count reads through a wrong pointer while a register holds the mask 0x5555..., which looks like the fill.
// finding: wild-access
// access: read
// stack-access: count_bits
// exit: 139

#include "../bug.h"

FRAME int count_bits(const uint64_t *words, int count) {
    uint64_t ones = 0x5555555555555555, twos = 0x3333333333333333, sum = 0;
    FORGET(ones);
    for (int i = 0; i < count; i++) {
        uint64_t word = words[i];
        word -= word >> 1 & ones;
        word = (word & twos) + (word >> 2 & twos);
        sum += ((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56;
        HOLD(ones);
    }
    return (int)sum;
}

int main(void) {
#ifdef FIXED
    static const uint64_t few[] = {1, 3, 7};
    const uint64_t *words = few;
#else
    const uint64_t *words = (const uint64_t *)0xdead000000000000;
#endif
    printf("%d\n", count_bits(words, 3));
    return 0;
}
