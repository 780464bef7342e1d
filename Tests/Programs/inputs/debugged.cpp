// A program to debug: threads, containers, a library call, and a fault at the end.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

struct Node {
    int value;
    Node *next;
};

static std::map<std::string, std::vector<int>> table;

__attribute__((noinline)) int visit(Node *node, int depth) {
    if (!node->next) return depth;
    return visit(node->next, depth + 1) + (node->value > 3);
}

__attribute__((noinline)) void fault(volatile int *at) { *at = 5; }

int main(int count, char **) {
    Node *list = nullptr;
    for (int i = 0; i < 12; i++) list = new Node{i * i % 7, list};
    for (int i = 0; i < 300; i++) table["key" + std::to_string(i % 17)].push_back(i);
    std::thread worker([] {
        for (int i = 0; i < 1000; i++) table["worker"].assign(i % 50, i);
    });
    worker.join();
    int total = visit(list, 0);
    std::printf("total %d, %zu keys\n", total, table.size());
    while (list) {
        Node *next = list->next;
        delete list;
        list = next;
    }
    if (count > 1) fault(nullptr);
    return total;
}
