// A string from strdup is freed by operator delete[].
// finding: dealloc-mismatch
// access: free
// block: size=13 offset=0
// stack-access: delete_name
// stack-alloc: strdup|__strdup|__GI___strdup
// exit: 99
// confidence: exact
// detail: allocated_with="malloc" freed_with="operator delete[]"

#include "../bug.h"

FRAME char *copy_name() {
    char *name = strdup("twelve bytes");
    KEEP_FRAME();
    return name;
}

FRAME void delete_name(char *name) {
#ifdef FIXED
    free(name);
#else
    delete[] name;
#endif
    KEEP_FRAME();
}

int main() {
    char *name = copy_name();
    puts(name);
    delete_name(name);
}
