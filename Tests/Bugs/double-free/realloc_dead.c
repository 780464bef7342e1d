// A freed table is passed to realloc.
// finding: double-free
// access: free
// block: size=64 offset=0 state=quarantined language=unknown
// stack-access: grow_table
// stack-free: drop_table
// stack-alloc: make_table
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME long *make_table(void) {
    long *table = malloc(8 * sizeof *table);
    table[0] = 1;
    return table;
}

FRAME void drop_table(long *table) {
    free(table);
    KEEP_FRAME();
}

FRAME long *grow_table(long *table) {
    long *grown = realloc(table, 64 * sizeof *table);
    KEEP_FRAME();
    return grown;
}

int main(void) {
    long *table = make_table();
    printf("%ld\n", table[0]);
#ifdef FIXED
    table = grow_table(table);
    drop_table(table);
#else
    drop_table(table);
    table = grow_table(table);
#endif
    return 0;
}
