// An element is written through an iterator after the vector has reallocated its elements.
// finding: write-after-free
// access: write
// block: size=80 offset=20 state=quarantined
// stack-access: - (the writer is gone)
// stack-free: ~grow_values
// stack-alloc: ~make_values
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"
#include <vector>

FRAME void make_values(std::vector<int> &values) {
    values.resize(20, 1);
    KEEP_FRAME();
}

FRAME void grow_values(std::vector<int> &values) {
    values.resize(5000, 2);
    KEEP_FRAME();
}

FRAME void write_through(std::vector<int>::iterator iterator) { *iterator = 3; }

int main() {
    std::vector<int> values;
    make_values(values);
    auto sixth = values.begin() + 5;
    grow_values(values);
#ifdef FIXED
    sixth = values.begin() + 5;
#endif
    write_through(sixth);
    printf("%d\n", values[6]);
}
