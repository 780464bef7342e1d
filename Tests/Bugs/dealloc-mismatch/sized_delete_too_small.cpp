// The sized operator delete is passed fewer bytes than the block has.
// finding: dealloc-mismatch
// access: free
// block: size=200 offset=0
// stack-access: delete_node
// stack-alloc: make_node
// exit: 99
// confidence: exact
// detail: allocated_with="operator new" freed_with="operator delete"

#include "../bug.h"
#include <new>

FRAME long *make_node() {
    long *node = static_cast<long *>(operator new(200));
    node[0] = 6;
    return node;
}

FRAME void delete_node(long *node) {
#ifdef FIXED
    operator delete(node, 200);
#else
    operator delete(node, 16);
#endif
    KEEP_FRAME();
}

int main() {
    long *node = make_node();
    printf("%ld\n", node[0]);
    delete_node(node);
}
