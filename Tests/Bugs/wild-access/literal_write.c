// A string literal is written.
// finding: wild-access
// access: write
// stack-access: capitalize
// exit: 139
// confidence: exact

#include "../bug.h"

FRAME void capitalize(char *text) {
    text[0] = 'T';
    HOLD(text);
}

int main(void) {
#ifdef FIXED
    static char text[] = "text";
#else
    char *text = (char *)(uintptr_t) "text";
#endif
    capitalize(text);
    puts(text);
    return 0;
}
