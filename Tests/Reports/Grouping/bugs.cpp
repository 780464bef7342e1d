// Bugs in C++ that share functions, for Tests/Reports/grouping.py; the argument chooses the bug.
// grouping.py inserts code at the UNRELATED markers.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#define FRAME __attribute__((noinline))

// UNRELATED 1

namespace {
struct Shape {
    virtual ~Shape() = default;
    FRAME virtual int area(int factor) const { return factor * side; }
    int side = 3;
    char more[40] = {};
};
} // namespace

template <typename T> struct Pool {
    std::vector<T *> items;
    FRAME T *make() {
        items.push_back(new T);
        return items.back();
    }
    FRAME void release(T *item) {
        items.clear();
        delete item;
    }
};

struct Other {
    int value = 5;
    char more[100] = {};
};

FRAME static int read_side(const volatile int *side) {
    // UNRELATED line
    return *side;
}

FRAME static int each(const std::vector<Shape *> &shapes) {
    int sum = 0;
    // UNRELATED lambda
    std::for_each(shapes.begin(), shapes.end(), [&](Shape *shape) {
        sum += read_side(&shape->side);
        __asm__ volatile("" ::: "memory");
    });
    return sum;
}

// UNRELATED 2

int main(int argc, char **argv) {
    std::string bug = argc > 1 ? argv[1] : "";
    Pool<Shape> shapes;
    Pool<Other> others;
    Shape *shape = shapes.make();
    Other *other = others.make();
    int sum = 0;
    if (bug == "lambda") {
        shapes.release(shape);
        sum = each({shape});
    } else if (bug == "method") {
        shapes.release(shape);
        sum = shape->area(2);
    } else if (bug == "template") {
        shapes.release(shape);
        sum = read_side(&shape->side);
    } else if (bug == "twice") {
        others.release(other);
        others.release(other);
    }
    std::printf("%d\n", sum);
    return 0;
}
