// Allocates blocks, and prints "ready". For each line with a number N, allocates N carts and frees half the texts.
// The class name Cart<script> must not become a tag in a page.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct script {};

template <class Kind> struct Cart {
    virtual ~Cart() = default;
    char name[80] = "";
};

struct Order {
    virtual ~Order() = default;
    long lines[30] = {};
};

static std::vector<Cart<script> *> carts;
static std::vector<Order *> orders;
static std::vector<char *> texts;

__attribute__((noinline)) static void open_cart() { carts.push_back(new Cart<script>); }
__attribute__((noinline)) static void place_order() { orders.push_back(new Order); }
__attribute__((noinline)) static void note() { texts.push_back(strdup("a line of text that somebody keeps")); }

__attribute__((noinline)) static void serve(int count) {
    for (int i = 0; i < count; i++) open_cart();
}

int main() {
    static char input[4096]; // otherwise the first fgets would allocate a buffer, perhaps after the first `zguard heap`
    setvbuf(stdin, input, _IOFBF, sizeof input);
    carts.reserve(100000);
    orders.reserve(1000);
    texts.reserve(1000);
    serve(200);
    for (int i = 0; i < 50; i++) place_order();
    for (int i = 0; i < 100; i++) note();
    puts("ready");
    fflush(stdout);
    char line[32];
    while (fgets(line, sizeof line, stdin)) {
        serve(atoi(line));
        for (size_t half = texts.size() / 2; texts.size() > half; texts.pop_back()) free(texts.back());
        puts("more");
        fflush(stdout);
    }
}
