// Ways to die that have different signatures, and ways that are one bug, for grouping.py; the argument chooses the way.
// grouping.py inserts code at the UNRELATED markers.

#include <cassert>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#define FRAME __attribute__((noinline))
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

// UNRELATED 1

static volatile int zero = 0, many = 17;

struct Cart {
    int items;
    FRAME int first() const {
        // UNRELATED line
        assert(items > 0);
        assert(items < 100);
        KEEP_FRAME();
        return items;
    }
};

struct Basket {
    int items;
    FRAME int first() const {
        assert(items > 0);
        KEEP_FRAME();
        return items;
    }
};

// Deaths in one function that differ in the signal only.
FRAME static int die(const std::string &how) {
    // UNRELATED line
    if (how == "segv") std::raise(SIGSEGV);
    if (how == "bus") std::raise(SIGBUS);
    if (how == "abort") std::abort();
    if (how == "ill") std::raise(SIGILL);
    if (how == "divide") return many / zero;
    if (how == "trap") __builtin_trap();
    KEEP_FRAME();
    return 0;
}

// Errors that one function throws, and that differ in type or message.
FRAME static int refuse(const std::string &how, int order) {
    // UNRELATED line
    std::string name = "order " + std::to_string(order);
    if (how == "runtime") throw std::runtime_error(name + " has no items");
    if (how == "runtime-other") throw std::runtime_error(name + " has no price");
    if (how == "logic") throw std::logic_error(name + " has no items");
    if (how == "number") throw order;
    KEEP_FRAME();
    return 0;
}

// Messages that one function prints before it aborts.
FRAME static int give_up(const std::string &how, int order) {
    if (how == "say-file") std::fprintf(stderr, "cannot open '/srv/orders/%d.txt' (error %d)\n", order, order * 3);
    if (how == "say-list") std::fprintf(stderr, "lost orders: %d, %d%s\n", order, order + 1, order > 50 ? ", 99" : "");
    std::abort();
}

// A recursion that two functions share: either may be the innermost.
FRAME static int odd(int depth);
FRAME static int even(int depth) {
    int result = depth ? odd(depth - 1) : die("abort");
    KEEP_FRAME();
    return result + 1;
}
FRAME static int odd(int depth) {
    int result = depth ? even(depth - 1) : die("abort");
    KEEP_FRAME();
    return result + 2; // unlike even, so that the compiler does not take one function for both
}

static inline int inlined(const std::string &how) { return die(how) + 1; }

FRAME static int outer(const std::string &how) {
    int result = inlined(how);
    KEEP_FRAME();
    return result;
}

// Functions without linkage names: g++'s debug information gives their inlined frames bare names.
namespace dock {
static int open(const std::string &how) {
    if (how == "dock") throw std::runtime_error("the dock is closed");
    return zero;
}
namespace {
struct Gate {
    int pass(const std::string &how) const {
        auto check = [&how](int gate) {
            if (gate == 17 && how == "dock-lambda") throw std::runtime_error("the gate is closed");
            return gate;
        };
        return check(many) + open(how);
    }
};
} // namespace
} // namespace dock

// UNRELATED 2

int main(int argc, char **argv) {
    std::string how = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? std::atoi(argv[2]) : 17;
    int result = 0;
    if (how == "cart") {
        result = Cart{0}.first();
    } else if (how == "cart-many") {
        result = Cart{number + 100}.first();
    } else if (how == "basket") {
        result = Basket{0}.first();
    } else if (how.rfind("say-", 0) == 0) {
        result = give_up(how, number);
    } else if (how == "turns") {
        result = even(number);
    } else if (how == "outer") {
        result = outer("abort");
    } else if (how.rfind("dock", 0) == 0) {
        result = dock::Gate().pass(how);
    } else {
        result = die(how) + refuse(how, number);
    }
    std::printf("%d\n", result);
    return 0;
}
