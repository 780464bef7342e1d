// A row of 56 bytes inside a freed table is assigned; the bytes around it keep the fill.
// finding: write-after-free
// access: write
// block: size=560 offset=224 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_table
// stack-alloc: make_table
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

struct row {
    long cells[7];
};

FRAME struct row *make_table(void) {
    struct row *table = malloc(10 * sizeof *table);
    memset(table, 1, 10 * sizeof *table);
    return table;
}

FRAME void drop_table(struct row *table) {
    free(table);
    KEEP_FRAME();
}

FRAME void set_row(struct row *table, int index, const struct row *row) { table[index] = *row; }

int main(void) {
    struct row row = {{1, 2, 3, 4, 5, 6, 7}};
    struct row *table = make_table();
#ifdef FIXED
    set_row(table, 4, &row);
    drop_table(table);
#else
    drop_table(table);
    set_row(table, 4, &row);
#endif
    puts("end");
    return 0;
}
