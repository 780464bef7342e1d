// A node is unlinked after its successor was freed: the back link is written into the freed successor.
// finding: write-after-free
// access: write
// block: size=32 offset=8 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_node
// stack-alloc: make_node
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

struct node {
    struct node *next, *previous;
    long value[2];
};

FRAME struct node *make_node(struct node *previous) {
    struct node *node = calloc(1, sizeof *node);
    node->previous = previous;
    if (previous) previous->next = node;
    return node;
}

FRAME void unlink_node(struct node *node) {
    if (node->previous) node->previous->next = node->next;
    if (node->next) node->next->previous = node->previous;
}

FRAME void drop_node(struct node *node) {
    free(node);
    KEEP_FRAME();
}

int main(void) {
    struct node *first = make_node(NULL), *second = make_node(first), *third = make_node(second);
#ifdef FIXED
    unlink_node(third);
#endif
    drop_node(third);
    unlink_node(second);
    printf("%d\n", first->next == second);
    free(second);
    free(first);
    return 0;
}
