// A list is freed node by node; the link to the next node is read from the node just freed.
// finding: use-after-free
// access: read
// block: size=24 offset=0 state=quarantined language=unknown
// stack-access: drop_list
// stack-free: drop_list
// stack-alloc: make_node
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

struct node {
    struct node *next;
    long value[2];
};

FRAME struct node *make_node(struct node *next) {
    struct node *node = malloc(sizeof *node);
    node->next = next;
    node->value[0] = 3;
    return node;
}

FRAME long drop_list(struct node *node) {
    long sum = 0;
    struct node *dead = NULL;
    while (node) {
        sum += node->value[0];
        HOLD(dead);
        dead = node;
#ifdef FIXED
        node = node->next;
        free(dead);
#else
        free(dead);
        node = node->next;
#endif
    }
    return sum;
}

int main(void) {
    struct node *list = NULL;
    for (int i = 0; i < 3; i++) list = make_node(list);
    printf("%ld\n", drop_list(list));
    return 0;
}
