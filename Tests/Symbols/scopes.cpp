// Nested functions of every kind: local classes, lambdas, exception handlers, and what optimizers make of them.
// symbols.py symbolizes every address.

#include <algorithm>
#include <functional>
#include <vector>

volatile int sink;

template <class F> __attribute__((noinline)) int call(F function) { return function(3); }

int work(int count) {
    struct Local {
        int value;
        __attribute__((noinline)) int get(int factor) {
            auto scaled = [factor](int x) { return x * factor + 1; };
            return call(scaled) + value;
        }
    };
    Local local{count};
    try {
        if (count > 100) throw count;
        auto deep = [&](int x) {
            struct Deep {
                static int next(int y) { return y + 1 + sink; }
            };
            return Deep::next(x) + local.get(x);
        };
        sink = call(deep);
    } catch (int thrown) {
        sink = thrown;
    }
    std::vector<int> numbers{3, 1, 2};
    std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a < b; });
    std::function<int(int)> later = [=](int x) { return x + count; };
    return sink + numbers[0] + later(2);
}

namespace {
struct Unnamed {
    ~Unnamed() { sink = 1; }
    virtual int get() { return sink; }
};
} // namespace

int main(int count, char **) {
    Unnamed object;
    return work(count) + object.get();
}
