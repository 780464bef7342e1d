// A loop erases a list element and then advances the iterator of the erased element.
// finding: use-after-free
// access: read
// block: size=24 offset=0 state=quarantined
// stack-access: next_value
// stack-free: ~erase_value
// stack-alloc: ~add_value
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"
#include <list>

FRAME void add_value(std::list<long> &values, long value) {
    values.push_back(value);
    KEEP_FRAME();
}

FRAME std::list<long>::iterator erase_value(std::list<long> &values, std::list<long>::iterator position) {
    std::list<long>::iterator next = values.erase(position);
    KEEP_FRAME();
    return next;
}

FRAME long next_value(std::list<long>::iterator position) {
    std::list<long>::iterator next = position;
    long value = *++next;
    HOLD(position._M_node);
    return value;
}

int main() {
    std::list<long> values;
    for (long i = 0; i < 4; i++) add_value(values, i);
    std::list<long>::iterator second = std::next(values.begin());
    std::list<long>::iterator after = erase_value(values, second);
#ifdef FIXED
    second = after;
#endif
    printf("%ld\n", next_value(second));
    printf("%ld\n", *after);
}
