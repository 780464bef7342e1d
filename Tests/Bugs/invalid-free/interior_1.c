// A string is freed through a pointer to its second character.
// finding: invalid-free
// access: free
// block: size=32 offset=1 state=live language=unknown
// stack-access: drop_word
// stack-alloc: make_word
// exit: 134
// confidence: exact
// detail: what="interior pointer|misaligned"

#include "../bug.h"

FRAME char *make_word(void) {
    char *word = malloc(32);
    strcpy(word, "-word");
    return word;
}

FRAME void drop_word(char *word) {
    free(word);
    KEEP_FRAME();
}

int main(void) {
    char *word = make_word();
    puts(word + 1);
#ifdef FIXED
    drop_word(word);
#else
    drop_word(word + 1);
#endif
    return 0;
}
