// A vector is indexed through a reference after the vector was deleted.
// finding: use-after-free
// access: read
// block: size=24 offset=0 state=quarantined
// stack-access: third_value
// stack-free: delete_values
// stack-alloc: make_values
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"
#include <vector>

FRAME std::vector<int> *make_values() {
    std::vector<int> *values = new std::vector<int>(10, 4);
    HOLD(values);
    return values;
}

FRAME void delete_values(std::vector<int> *values) {
    delete values;
    KEEP_FRAME();
}

FRAME int third_value(const std::vector<int> &values) {
    int value = values.data()[2];
    HOLD(&values);
    return value;
}

int main() {
    std::vector<int> *values = make_values();
#ifndef FIXED
    delete_values(values);
#endif
    printf("%d\n", third_value(*values));
#ifdef FIXED
    delete_values(values);
#endif
}
