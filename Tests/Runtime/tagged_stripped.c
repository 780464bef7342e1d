// Profile mte: a program that strips the tags off its pointers still works, and continues without tag checks.
// processor: aarch64
// preload
// options: profile=mte:on_finding=continue
// warning: no memory tagging

#include <malloc.h>

#include "tagged.h"

#define STRIPPED(pointer) ((volatile char *)address_of(pointer))

int main(void) {
    char *block = malloc(100), *other = malloc(100);
    if (has_tags()) CHECK(tag_of(block), "a tag");
    for (int i = 0; i < 100; i++) STRIPPED(block)[i] = (char)i;
    for (int i = 0; i < 100; i++) CHECK(block[i] == i, "what was written");
    CHECK_EQUAL(malloc_usable_size((void *)STRIPPED(block)), 100, "the size of a block without its tag");
    char *moved = realloc((void *)STRIPPED(block), 5000);
    for (int i = 0; i < 100; i++) CHECK(moved[i] == i, "is moved with its contents");
    free((void *)STRIPPED(moved));
    for (int round = 0; round < 1000; round++) {
        char *blocks[10];
        for (int i = 0; i < 10; i++) memset((void *)STRIPPED(blocks[i] = calloc(1, 10 + (size_t)i * 30)), 1, 10);
        for (int i = 0; i < 10; i++) free(i % 2 ? (void *)STRIPPED(blocks[i]) : blocks[i]);
    }
    STRIPPED(other)[3] = 1;
    free(other);
    return check_end();
}
