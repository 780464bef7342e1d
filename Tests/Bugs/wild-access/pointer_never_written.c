// A pointer that was never initialized is read from a new block with fill bytes, and dereferenced.
// finding: wild-access
// access: write
// block: size=64 state=live
// stack-access: mark
// stack-alloc: make_node
// exit: 139
// confidence: inferred
// options: fill_new=1
// detail: read_from="never written"

#include "../bug.h"

struct node {
    long number;
    struct node *next;
    char rest[48];
};

FRAME struct node *make_node(void) {
    struct node *node = malloc(sizeof *node);
    node->number = 1;
#ifdef FIXED
    node->next = NULL;
#endif
    KEEP_FRAME();
    return node;
}

FRAME void mark(struct node *node) {
    if (node->next) node->next->number = 2;
    HOLD(node);
}

int main(void) {
    struct node *node = make_node();
    mark(node);
    free(node);
    return 0;
}
