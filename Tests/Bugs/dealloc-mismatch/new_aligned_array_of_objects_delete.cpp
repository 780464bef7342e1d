// An array of objects aligned to 64 bytes is freed by delete, not delete[]: the array cookie takes 64 bytes in front.
// finding: dealloc-mismatch
// access: free
// block: size=256 offset=64 state=live
// stack-access: drop_lanes
// stack-alloc: make_lanes
// exit: 99
// confidence: exact
// detail: allocated_with="operator new[]" freed_with="operator delete"

#include "../bug.h"

struct alignas(64) Lane {
    long number = 1;
    FRAME ~Lane() { KEEP_FRAME(); }
};

FRAME Lane *make_lanes(int count) {
    Lane *lanes = new Lane[count];
    KEEP_FRAME();
    return lanes;
}

FRAME void drop_lanes(Lane *lanes) {
#ifdef FIXED
    delete[] lanes;
#else
    delete lanes;
#endif
    KEEP_FRAME();
}

int main() {
    Lane *lanes = make_lanes(3);
    printf("%ld\n", lanes[2].number);
    drop_lanes(lanes);
}
