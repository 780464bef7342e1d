// A block from calloc is freed by operator delete.
// finding: dealloc-mismatch
// access: free
// block: size=64 offset=0
// stack-access: delete_table
// stack-alloc: make_table
// exit: 99
// confidence: exact
// detail: allocated_with="malloc" freed_with="operator delete"

#include "../bug.h"

FRAME long *make_table() {
    long *table = static_cast<long *>(calloc(8, 8));
    table[7] = 3;
    return table;
}

FRAME void delete_table(long *table) {
#ifdef FIXED
    free(table);
#else
    delete table;
#endif
    KEEP_FRAME();
}

int main() {
    long *table = make_table();
    printf("%ld %ld\n", table[0], table[7]);
    delete_table(table);
}
