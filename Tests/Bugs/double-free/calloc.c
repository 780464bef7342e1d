// A block made by calloc is freed twice.
// finding: double-free
// access: free
// block: size=120 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_grid
// stack-alloc: make_grid
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME int *make_grid(void) {
    int *grid = calloc(10, 12);
    grid[3] = 3;
    return grid;
}

FRAME void drop_grid(int *grid) {
    free(grid);
    KEEP_FRAME();
}

FRAME void drop_again(int *grid) {
    free(grid);
    KEEP_FRAME();
}

int main(void) {
    int *grid = make_grid();
    printf("%d %d\n", grid[0], grid[3]);
    drop_grid(grid);
#ifdef FIXED
    grid = make_grid();
#endif
    drop_again(grid);
    return 0;
}
