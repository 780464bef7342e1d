// A class has its own operator new and delete, which reuse blocks through a pool.

#include <cstdio>
#include <cstdlib>
#include <new>

class Node {
  public:
    explicit Node(long value) : value(value) {}
    static void *operator new(std::size_t size) {
        if (!pool) return std::malloc(size);
        void *block = pool;
        pool = *static_cast<void **>(block);
        return block;
    }
    static void operator delete(void *block) {
        *static_cast<void **>(block) = pool;
        pool = block;
    }
    static void drain() {
        while (pool) {
            void *block = pool;
            pool = *static_cast<void **>(block);
            std::free(block);
        }
    }
    long value;

  private:
    static void *pool;
};

void *Node::pool;

int main() {
    long sum = 0;
    for (int round = 0; round < 100; round++) {
        Node *nodes[20];
        for (int i = 0; i < 20; i++) nodes[i] = new Node(i);
        for (Node *node : nodes) {
            sum += node->value;
            delete node;
        }
    }
    Node::drain();
    std::printf("%ld\n", sum);
}
