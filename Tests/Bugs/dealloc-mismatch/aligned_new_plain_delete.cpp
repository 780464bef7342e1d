// A block from the aligned operator new is freed by the plain operator delete.
// finding: dealloc-mismatch
// access: free
// block: size=128 offset=0
// stack-access: delete_vector
// stack-alloc: make_vector
// exit: 99
// confidence: exact
// detail: allocated_with="align" freed_with="operator delete"

#include "../bug.h"
#include <new>

FRAME float *make_vector() {
    float *vector = static_cast<float *>(operator new(128, std::align_val_t(64)));
    vector[0] = 0.5f;
    return vector;
}

FRAME void delete_vector(float *vector) {
#ifdef FIXED
    operator delete(vector, std::align_val_t(64));
#else
    operator delete(vector);
#endif
    KEEP_FRAME();
}

int main() {
    float *vector = make_vector();
    printf("%g\n", vector[0]);
    delete_vector(vector);
}
