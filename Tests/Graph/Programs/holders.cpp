// A freed block to which a C++ object still points. The word chooses the case; the comment above a case says what the
// finding must name first: "// case: TEXT".

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace shop {
struct Item {
    virtual ~Item() = default;
    virtual int price() const { return price_; }
    int price_ = 3;
    char more[180] = {};
};
struct Cart {
    virtual ~Cart() = default;
    long id = 1;
    Item *last = nullptr;
};
} // namespace shop

// The address of a block, so encoded that no search takes it for a pointer. What was stored by now is in memory.
static uint64_t hidden(void *pointer) {
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return ~reinterpret_cast<uint64_t>(pointer);
}
static uint64_t kept;

// case: offset 16 of a live shop::Cart (allocated in
__attribute__((noinline)) static uint64_t member() {
    auto *cart = new shop::Cart;
    cart->last = new shop::Item;
    kept = hidden(cart);
    return hidden(cart->last);
}

// case: offset 16 of a live block of
__attribute__((noinline)) static uint64_t vector() {
    auto *items = new std::vector<shop::Item *>;
    items->reserve(10);
    for (int i = 0; i < 3; i++) items->push_back(new shop::Item);
    kept = hidden(items);
    return hidden(items->back());
}

// case: offset 40 of a live block of 48 bytes (allocated in
__attribute__((noinline)) static uint64_t map() {
    auto *items = new std::map<int, shop::Item *>;
    (*items)[5] = new shop::Item;
    kept = hidden(items);
    return hidden((*items)[5]);
}

static std::unique_ptr<shop::Item> owner;
// case: the global 'owner' (holders_cxx)
__attribute__((noinline)) static uint64_t global() {
    owner = std::make_unique<shop::Item>();
    return hidden(owner.get());
}

__attribute__((noinline)) static void scrub() {
    volatile char room[16384];
    memset(const_cast<char *>(room), 0, sizeof room);
}
__attribute__((noinline)) static void drop(uint64_t item) { delete reinterpret_cast<shop::Item *>(~item); }
__attribute__((noinline)) static int use(uint64_t item) { return reinterpret_cast<shop::Item *>(~item)->price(); }

int main(int count, char **words) {
    const struct {
        const char *name;
        uint64_t (*make)();
    } cases[] = {{"member", member}, {"vector", vector}, {"map", map}, {"global", global}};
    for (const auto &each : cases) {
        if (count < 2 || strcmp(each.name, words[1])) continue;
        uint64_t item = each.make();
        drop(item);
        scrub();
        printf("%d\n", use(item));
        return 0;
    }
    return 2;
}
