// Several buffers grow alternately by half with realloc, from 16 bytes to half a megabyte.
#include "bench.h"

int main(int argc, char **argv) {
    enum { BUFFERS = 16 };
    long rounds = bench_rounds(argc, argv, 250);
    uint64_t sum = 0;
    for (long round = 0; round < rounds; round++) {
        unsigned char *buffers[BUFFERS] = {0};
        size_t size = 16;
        for (; size < 512 * 1024; size += size / 2)
            for (int i = 0; i < BUFFERS; i++) {
                buffers[i] = bench_need(realloc(buffers[i], size));
                buffers[i][size - 1] = (unsigned char)(round + i);
                sum += buffers[i][0] = (unsigned char)i;
            }
        for (int i = 0; i < BUFFERS; i++) free(buffers[i]);
    }
    printf("%llu\n", (unsigned long long)sum);
}
