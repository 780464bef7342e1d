// The default copy constructor copies an owning pointer, so the destructors of both copies delete it.
// finding: double-free
// access: free
// block: size=96 offset=0 state=quarantined
// stack-access: Matrix::~Matrix
// stack-free: Matrix::~Matrix
// stack-alloc: Matrix::Matrix
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

struct Matrix {
    double *cells;
    FRAME Matrix() : cells(new double[12]) { cells[0] = 1; }
#ifdef FIXED
    FRAME Matrix(const Matrix &other) : cells(new double[12]) { memcpy(cells, other.cells, 12 * sizeof *cells); }
#endif
    FRAME ~Matrix() {
        delete[] cells;
        KEEP_FRAME();
    }
};

FRAME double trace(Matrix matrix) { return matrix.cells[0]; }

int main() {
    Matrix matrix;
    printf("%g\n", trace(matrix));
}
