// The first word of a freed block is written. A live block ends where it begins, and may have been overrun.
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
    static struct node *nodes[COUNT];
    for (int i = 0; i < COUNT; i++) nodes[i] = make_node();
    struct node *stale = NULL;
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT && !stale; j++)
            if (nodes[j] == nodes[i] + 1) {
                stale = nodes[j];
#ifdef FIXED
                unlink_next(stale);
#endif
                drop_node(stale);
                nodes[j] = NULL;
            }
    if (!stale) stale = nodes[0]; // unguarded, where no block is at this distance
#ifndef FIXED
    unlink_next(stale);
#endif
    puts("end");
    return 0;
}
