// A member of four bytes of a freed record is written.
// finding: write-after-free
// access: write
// block: size=64 offset=20 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_order
// stack-alloc: make_order
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

struct order {
    char name[20];
    int count;
    char note[40];
};

FRAME struct order *make_order(void) {
    struct order *order = malloc(sizeof *order);
    memset(order, 0, sizeof *order);
    return order;
}

FRAME void drop_order(struct order *order) {
    free(order);
    KEEP_FRAME();
}

FRAME void set_count(struct order *order, int count) { order->count = count; }

int main(void) {
    struct order *order = make_order();
#ifdef FIXED
    set_count(order, 123456789);
    drop_order(order);
#else
    drop_order(order);
    set_count(order, 123456789);
#endif
    puts("end");
    return 0;
}
