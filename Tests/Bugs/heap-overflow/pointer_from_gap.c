// A pointer is read from the gap behind a list, past its last element, and dereferenced.
// finding: heap-overflow
// access: read
// block: size=100 state=live
// stack-access: last_word
// stack-alloc: make_list
// exit: 139
// confidence: inferred
// detail: read_from="gap beside a block"

#include "../bug.h"

FRAME const char **make_list(void) {
    const char **list = malloc(100);
    for (int i = 0; i < 12; i++) list[i] = "word";
    KEEP_FRAME();
    return list;
}

FRAME char last_word(const char **list, long count) {
    const char *word = list[count];
    char first = word[0];
    HOLD(list);
    return first;
}

int main(void) {
    const char **list = make_list();
    long count = 13;
#ifdef FIXED
    count = 11;
#endif
    FORGET(count);
    printf("%c\n", last_word(list, count));
    free(list);
    return 0;
}
