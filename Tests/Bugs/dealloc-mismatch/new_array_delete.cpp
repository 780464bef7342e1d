// An array of bytes from new[] is freed by delete, not delete[].
// finding: dealloc-mismatch
// access: free
// block: size=1000 offset=0
// stack-access: delete_bytes
// stack-alloc: make_bytes
// exit: 99
// confidence: exact
// detail: allocated_with="operator new[]" freed_with="operator delete"

#include "../bug.h"

FRAME char *make_bytes() {
    char *bytes = new char[1000];
    strcpy(bytes, "bytes");
    return bytes;
}

FRAME void delete_bytes(char *bytes) {
#ifdef FIXED
    delete[] bytes;
#else
    delete bytes;
#endif
    KEEP_FRAME();
}

int main() {
    char *bytes = make_bytes();
    puts(bytes);
    delete_bytes(bytes);
}
