// A member is read through a null pointer.
// finding: null-access
// access: read
// address: 0x10
// stack-access: use_item
// exit: 139
// confidence: exact

#include "../bug.h"

struct item {
    long id[2];
    long price;
};

FRAME struct item *find_item(struct item *items, long id) {
    for (int i = 0; i < 2; i++)
        if (items[i].id[0] == id) return &items[i];
    return NULL;
}

FRAME long use_item(struct item *item) {
    long price = item->price;
    HOLD(item);
    return price;
}

int main(void) {
    struct item items[2] = {{{1, 0}, 10}, {{2, 0}, 20}};
#ifdef FIXED
    struct item *item = find_item(items, 2);
#else
    struct item *item = find_item(items, 3);
#endif
    printf("%ld\n", use_item(item));
    return 0;
}
