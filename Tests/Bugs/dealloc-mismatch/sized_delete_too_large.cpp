// The sized operator delete is passed more bytes than the block has.
// finding: dealloc-mismatch
// access: free
// block: size=24 offset=0
// stack-access: delete_node
// stack-alloc: make_node
// exit: 99
// confidence: exact
// detail: allocated_with="operator new" freed_with="operator delete"

#include "../bug.h"
#include <new>

FRAME long *make_node() {
    long *node = static_cast<long *>(operator new(24));
    node[0] = 6;
    return node;
}

FRAME void delete_node(long *node) {
#ifdef FIXED
    operator delete(node, 24);
#else
    operator delete(node, 40);
#endif
    KEEP_FRAME();
}

int main() {
    long *node = make_node();
    printf("%ld\n", node[0]);
    delete_node(node);
}
