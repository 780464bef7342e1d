// A pointer is read from the freed block behind a live list of pointers, and dereferenced.
// finding: heap-overflow
// access: read
// block: size=64 offset=80 state=live
// stack-access: word_at
// stack-alloc: make_list
// exit: 139
// confidence: inferred
// options: isolated_per_context=0
// detail: read_from="freed block behind a block" evidence="loaded relative to this block"

#include "../bug.h"

enum { COUNT = 64, WORDS = 8 };

FRAME const char **make_list(void) {
    const char **list = malloc(WORDS * sizeof *list);
    for (int i = 0; i < WORDS; i++) list[i] = "word";
    KEEP_FRAME();
    return list;
}

FRAME char word_at(const char **list, long index) {
    const char *word = list[index];
    FORGET(word);
    char first = word[0];
    HOLD(list);
    HOLD(index);
    return first;
}

int main(void) {
    static const char **lists[COUNT];
    for (int i = 0; i < COUNT; i++) lists[i] = make_list();
    const char **list = NULL;
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT && !list; j++)
            if (lists[j] == lists[i] + WORDS) {
                list = lists[i];
                free(lists[j]);
                lists[j] = NULL;
            }
    long index = 10;
#ifdef FIXED
    list = lists[0], index = 7;
#endif
    FORGET(index);
    printf("%c\n", word_at(list, index));
    for (int i = 0; i < COUNT; i++) free(lists[i]);
    return 0;
}
