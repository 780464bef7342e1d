// A node is an element of two lists, and each list frees all of its nodes.
// finding: double-free
// access: free
// block: size=16 offset=0 state=quarantined language=unknown
// stack-access: drop_nodes
// stack-free: drop_nodes
// stack-alloc: make_node
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

struct node {
    long value;
    struct node *next;
};

FRAME struct node *make_node(long value, struct node *next) {
    struct node *node = malloc(sizeof *node);
    node->value = value;
    node->next = next;
    return node;
}

FRAME void drop_nodes(struct node **nodes, int count) {
    for (int i = 0; i < count; i++) free(nodes[i]);
    KEEP_FRAME();
}

int main(void) {
    struct node *shared = make_node(2, NULL);
    struct node *first[2] = {make_node(1, shared), shared};
#ifdef FIXED
    shared = make_node(2, NULL);
#endif
    struct node *second[2] = {make_node(3, shared), shared};
    printf("%ld\n", first[0]->next->value + second[0]->next->value);
    drop_nodes(first, 2);
    drop_nodes(second, 2);
    return 0;
}
