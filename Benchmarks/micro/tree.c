// Builds and frees binary trees beside a long-lived one: many small blocks with pointers, freed in another order.
#include "bench.h"

struct node {
    struct node *left, *right;
    uint64_t key;
};

static struct node *build(int depth, uint64_t key) {
    struct node *node = bench_need(malloc(sizeof *node));
    *node = (struct node){.key = key};
    if (depth > 0) {
        node->left = build(depth - 1, key * 2);
        node->right = build(depth - 1, key * 2 + 1);
    }
    return node;
}

static uint64_t tear(struct node *node) {
    if (!node) return 0;
    uint64_t sum = node->key + tear(node->left) + tear(node->right);
    free(node);
    return sum;
}

int main(int argc, char **argv) {
    long rounds = bench_rounds(argc, argv, 180);
    struct node *kept = build(17, 1);
    uint64_t sum = 0;
    for (long round = 0; round < rounds; round++) sum += tear(build(14 + (int)(round % 3), (uint64_t)round));
    printf("%llu\n", (unsigned long long)(sum + tear(kept)));
}
