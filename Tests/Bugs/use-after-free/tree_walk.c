// A tree is searched after its nodes were freed.
// finding: use-after-free
// access: read
// block: size=32 offset=0 state=quarantined language=unknown
// stack-access: find_leftmost
// stack-free: drop_tree
// stack-alloc: make_tree
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

struct tree {
    struct tree *left, *right;
    long key[2];
};

FRAME struct tree *make_tree(int depth, long key) {
    struct tree *tree = malloc(sizeof *tree);
    tree->key[0] = key;
    tree->left = depth ? make_tree(depth - 1, 2 * key) : NULL;
    tree->right = depth ? make_tree(depth - 1, 2 * key + 1) : NULL;
    return tree;
}

FRAME void drop_tree(struct tree *tree) {
    if (!tree) return;
    struct tree *left = tree->left, *right = tree->right;
    free(tree);
    drop_tree(left);
    drop_tree(right);
    KEEP_FRAME();
}

FRAME long find_leftmost(struct tree *tree) {
    struct tree *node = tree;
    while (node->left) node = node->left;
    HOLD(tree);
    return node->key[0];
}

int main(void) {
    struct tree *tree = make_tree(3, 1);
#ifdef FIXED
    printf("%ld\n", find_leftmost(tree));
    drop_tree(tree);
#else
    drop_tree(tree);
    printf("%ld\n", find_leftmost(tree));
#endif
    return 0;
}
