// A block from posix_memalign is freed by operator delete.
// finding: dealloc-mismatch
// access: free
// block: size=256 offset=0
// stack-access: delete_lanes
// stack-alloc: make_lanes
// exit: 99
// confidence: exact
// detail: allocated_with="align" freed_with="operator delete"

#include "../bug.h"

FRAME float *make_lanes() {
    void *memory = nullptr;
    if (posix_memalign(&memory, 64, 256)) abort();
    float *lanes = static_cast<float *>(memory);
    lanes[0] = 2.5f;
    return lanes;
}

FRAME void delete_lanes(float *lanes) {
#ifdef FIXED
    free(lanes);
#else
    delete lanes;
#endif
    KEEP_FRAME();
}

int main() {
    float *lanes = make_lanes();
    printf("%g\n", lanes[0]);
    delete_lanes(lanes);
}
