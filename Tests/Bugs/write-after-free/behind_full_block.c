// The first word of a freed block is written. The live block that ends at this address may have been overrun.
// finding: write-after-free
// access: write
// block: size=64 offset=0 state=quarantined
// stack-access: - (the writer is gone)
// stack-free: drop_node
// stack-alloc: make_node
// exit: 99
// options: isolated_per_context=0
// detail: found_by="exit" before_size="64" before_state="live"

#include "../bug.h"

enum { COUNT = 64 };

struct node {
    struct node *next;
    long values[7];
};

FRAME struct node *make_node(void) {
    struct node *node = calloc(1, sizeof *node);
    node->next = node;
    return node;
}

FRAME void drop_node(struct node *node) {
    free(node);
    KEEP_FRAME();
}

FRAME void unlink_next(struct node *node) { node->next = NULL; }

int main(void) {
    static void *nodes[COUNT];
    for (int i = 0; i < COUNT; i++) nodes[i] = make_node();
    int behind, front = find_neighbours(nodes, COUNT, sizeof(struct node), &behind);
    struct node *stale = nodes[front < 0 ? 0 : behind];
#ifdef FIXED
    unlink_next(stale);
#endif
    if (front >= 0) drop_node(stale);
#ifndef FIXED
    unlink_next(stale);
#endif
    puts("end");
    return 0;
}
