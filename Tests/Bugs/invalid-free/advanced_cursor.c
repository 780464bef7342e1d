// The only pointer to a string is advanced past leading spaces and then freed.
// finding: invalid-free
// access: free
// block: size=24 offset=3 state=live language=unknown
// stack-access: print_trimmed
// stack-alloc: strdup|__strdup|__GI___strdup
// exit: 134
// confidence: exact
// detail: what="interior pointer|misaligned"

#include "../bug.h"

FRAME void print_trimmed(const char *text) {
    char *copy = strdup(text);
    char *start = copy;
#ifdef FIXED
    while (*start == ' ') start++;
    puts(start);
#else
    while (*copy == ' ') copy++;
    puts(copy);
    HOLD(start);
#endif
    free(copy);
    KEEP_FRAME();
}

int main(void) {
    print_trimmed("   twenty-one bytes....");
    return 0;
}
