// C++ objects that containers hold, and some that are lost. The argument chooses the case.

#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace shop {
struct Item {
    virtual ~Item() = default;
    std::string name = "an item with a name that is not short";
    std::shared_ptr<Item> next;
};
struct Base {
    int number = 1;
    virtual ~Base() = default;
};
struct Second {
    long other = 2;
    virtual ~Second() = default;
};
struct Both : Base, Second {};
} // namespace shop

using shop::Item;

// Case "kept": each kind of container refers to its blocks. The compiler would drop static variables that nobody reads.
std::vector<std::unique_ptr<Item>> vector;
std::list<Item> list;
std::map<std::string, Item> map;
std::unordered_map<std::string, std::shared_ptr<Item>> table;
std::set<std::string> set;
std::deque<Item> deque;
std::function<int()> function;
std::string text;
std::weak_ptr<Item> weak;
shop::Second *second;
Item *array;

[[gnu::noinline]] static void keep() {
    for (int i = 0; i < 100; i++) {
        std::string name = "a key that is longer than the inline buffer " + std::to_string(i);
        vector.push_back(std::make_unique<Item>());
        list.emplace_back();
        map[name];
        table[name] = std::make_shared<Item>();
        set.insert(name);
        deque.emplace_back();
    }
    auto item = std::make_shared<Item>();
    function = [item, numbers = std::vector<int>(100)] { return (int)numbers.size() + (item != nullptr); };
    text = std::string(1000, 'x');
    weak = table.begin()->second;
    second = new shop::Both; // a pointer into the middle of an object
    array = new Item[10];    // a pointer behind the number of elements (array cookie) at the block's start
}

[[gnu::noinline]] static void lose_object() {
    Item *item = new Item;
    asm volatile("" : : "r"(item)); // otherwise the compiler leaves out the allocation
}
[[gnu::noinline]] static void lose_array() {
    Item *items = new Item[3];
    items[0].next = std::make_shared<Item>();
}
[[gnu::noinline]] static void lose_ring() {
    auto first = std::make_shared<Item>(), other = std::make_shared<Item>();
    first->next = other;
    other->next = first;
}

[[gnu::noinline]] static void scrub() {
    volatile char room[16384];
    memset((void *)room, 0, sizeof room);
}

int main(int count, char **words) {
    if (count < 2) return 2;
    if (!strcmp(words[1], "kept")) keep();
    for (int i = 0; !strcmp(words[1], "object") && i < 10; i++) lose_object();
    if (!strcmp(words[1], "array")) lose_array();
    for (int i = 0; !strcmp(words[1], "ring") && i < 10; i++) lose_ring();
    scrub();
    return 0;
}
