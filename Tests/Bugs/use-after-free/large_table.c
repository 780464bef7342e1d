// A pointer in a freed hash table of 512 KiB is dereferenced.
// finding: use-after-free
// access: read
// block: size=524288 state=quarantined language=unknown
// stack-access: look_up
// stack-free: drop_table
// stack-alloc: make_table
// exit: 139
// confidence: inferred
// options: isolated_per_context=0:quarantine_bytes=1000k

#include "../bug.h"

FRAME long **make_table(void) {
    static long value = 5;
    long **table = malloc(65536 * sizeof *table);
    for (int i = 0; i < 65536; i++) table[i] = &value;
    return table;
}

FRAME void drop_table(long **table) {
    free(table);
    KEEP_FRAME();
}

FRAME long look_up(long **table, int index) {
    long value = *table[index];
    HOLD(table);
    return value;
}

int main(void) {
    long **table = make_table();
#ifdef FIXED
    printf("%ld\n", look_up(table, 40000));
    drop_table(table);
#else
    drop_table(table);
    printf("%ld\n", look_up(table, 40000));
#endif
    return 0;
}
