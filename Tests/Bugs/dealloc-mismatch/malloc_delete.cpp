// A block from malloc is freed by operator delete.
// finding: dealloc-mismatch
// access: free
// block: size=24 offset=0
// stack-access: delete_point
// stack-alloc: make_point
// exit: 99
// confidence: exact
// detail: allocated_with="malloc" freed_with="operator delete"

#include "../bug.h"

FRAME double *make_point() {
    double *point = static_cast<double *>(malloc(24));
    point[0] = 1.5;
    return point;
}

FRAME void delete_point(double *point) {
#ifdef FIXED
    free(point);
#else
    delete point;
#endif
    KEEP_FRAME();
}

int main() {
    double *point = make_point();
    printf("%g\n", point[0]);
    delete_point(point);
}
