// A block made by aligned_alloc is freed twice.
// finding: double-free
// access: free
// block: size=256 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_matrix
// stack-alloc: make_matrix
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME double *make_matrix(void) {
    double *matrix = aligned_alloc(128, 256);
    matrix[0] = 0.5;
    return matrix;
}

FRAME void drop_matrix(double *matrix) {
    free(matrix);
    KEEP_FRAME();
}

FRAME void drop_again(double *matrix) {
    free(matrix);
    KEEP_FRAME();
}

int main(void) {
    double *matrix = make_matrix();
    printf("%d\n", (int)((uintptr_t)matrix % 128));
    drop_matrix(matrix);
#ifdef FIXED
    matrix = make_matrix();
#endif
    drop_again(matrix);
    return 0;
}
