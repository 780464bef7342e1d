// A buffer from malloc is freed by operator delete[].
// finding: dealloc-mismatch
// access: free
// block: size=150 offset=0
// stack-access: delete_text
// stack-alloc: make_text
// exit: 99
// confidence: exact
// detail: allocated_with="malloc" freed_with="operator delete[]"

#include "../bug.h"

FRAME char *make_text() {
    char *text = static_cast<char *>(malloc(150));
    strcpy(text, "text");
    return text;
}

FRAME void delete_text(char *text) {
#ifdef FIXED
    free(text);
#else
    delete[] text;
#endif
    KEEP_FRAME();
}

int main() {
    char *text = make_text();
    puts(text);
    delete_text(text);
}
