// Blocks of 0 bytes are passed to functions with length 0, grown, shrunk to nothing and made in thousands.
// options: profile=fence

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>
#include <string>
#include <vector>

static int compare(const void *one, const void *other) { return memcmp(one, other, 1); }

enum { MANY = 5000 };

int main() {
    volatile size_t none = 0;
    char *block = (char *)malloc(none), *other = (char *)calloc(none, 8), buffer[64] = "nothing";
    long sum = 0;
    for (int i = 0; i < 2; i++) {
        memcpy(block, buffer, none);
        memcpy(buffer, block, none);
        memmove(block, other, none);
        memset(block, 1, none);
        sum += memcmp(block, other, none) + strncmp(block, other, none) + strncasecmp(block, buffer, none);
        sum += memchr(block, 0, none) != nullptr;
        sum += (long)strnlen(block, none);
        sum += snprintf(block, none, "%s", buffer);
        sum += (long)strlen(strncpy(buffer, block, none));
        qsort(block, none, 1, compare);
        sum += bsearch(buffer, block, none, 1, compare) != nullptr;
        sum += write(1, block, none) + (long)fwrite(block, 1, none, stdout) + (long)fread(block, 1, none, stdin);
        sum += (long)std::string(block, none).size();
        sum += (long)std::vector<char>(block, block + none).size();
        std::swap(block, other);
    }
    printf("%ld\n", sum);

    block = (char *)realloc(block, 30);
    memset(block, 'g', 30);
    block = (char *)realloc(block, 3000);
    printf("%c %d\n", block[29], ((uintptr_t)block & 15) == 0);
    void *nothing = realloc(block, none);
    printf("%d\n", nothing == nullptr);
    free(nothing);
    free(other);

    char *letters = new char[none];
    int *numbers = new int[none];
    void *plain = operator new(none), *wide = operator new(none, std::align_val_t(256));
    printf("%d %d\n", ((uintptr_t)letters & 15) == 0, ((uintptr_t)wide & 255) == 0);
    delete[] letters;
    delete[] numbers;
    operator delete(plain);
    operator delete(wide, std::align_val_t(256));

    static void *many[MANY];
    int distinct = 1;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            many[i] = i % 3 ? malloc(none) : aligned_alloc(64, none);
            distinct &= many[i] && ((uintptr_t)many[i] & 15) == 0 && (!i || many[i] != many[i - 1]);
        }
        for (int i = 0; i < MANY; i++) free(many[round & 1 ? i : MANY - 1 - i]);
    }
    printf("%d\n", distinct);
}
