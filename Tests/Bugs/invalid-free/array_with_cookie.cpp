// free gets the first object of an array from new[]; the block starts in front of it, at the array cookie.
// finding: invalid-free
// access: free
// block: size=88 offset=8 state=live
// stack-access: drop_items
// stack-alloc: make_items
// exit: 134
// confidence: exact

#include "../bug.h"

struct Item {
    long price = 1, count = 1;
    FRAME ~Item() { KEEP_FRAME(); }
};

FRAME Item *make_items(int count) {
    Item *items = new Item[count];
    items[1].price = 3;
    return items;
}

FRAME void drop_items(Item *items) {
#ifdef FIXED
    delete[] items;
#else
    free(items);
#endif
    KEEP_FRAME();
}

int main() {
    Item *items = make_items(5);
    printf("%ld\n", items[1].price);
    drop_items(items);
}
