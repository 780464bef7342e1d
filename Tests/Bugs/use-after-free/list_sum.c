// The elements of a list are summed up after the list was freed.
// finding: use-after-free
// access: read
// block: size=48 offset=0 state=quarantined language=unknown
// stack-access: sum_list
// stack-free: drop_list
// stack-alloc: make_node
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

struct node {
    struct node *next;
    long value;
    long unused[4];
};

FRAME struct node *make_node(struct node *next, long value) {
    struct node *node = malloc(sizeof *node);
    node->next = next;
    node->value = value;
    return node;
}

FRAME void drop_list(struct node *node) {
    while (node) {
        struct node *next = node->next;
        free(node);
        node = next;
    }
}

FRAME long sum_list(struct node *list) {
    long sum = 0;
    for (struct node *node = list; node; node = node->next) sum += node->value;
    HOLD(list);
    return sum;
}

int main(void) {
    struct node *list = NULL;
    for (int i = 0; i < 4; i++) list = make_node(list, i);
#ifdef FIXED
    printf("%ld\n", sum_list(list));
    drop_list(list);
#else
    drop_list(list);
    printf("%ld\n", sum_list(list));
#endif
    return 0;
}
