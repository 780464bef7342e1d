// A program replaces only the basic operator new and delete; the library's other forms must call these two.

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

// The program leaves the sized form to the library on purpose.
#pragma GCC diagnostic ignored "-Wsized-deallocation"

static long made, gone;

void *operator new(std::size_t size) {
    made++;
    void *block = std::malloc(size ? size : 1);
    if (!block) throw std::bad_alloc();
    return block;
}

void operator delete(void *block) noexcept {
    gone += block != nullptr;
    std::free(block);
}

struct Pair {
    long first = 1, second = 2;
};

int main() {
    Pair *sized = new Pair();
    delete sized; // the sized form
    long after_sized = gone;
    Pair *array = new Pair[4];
    delete[] array;
    Pair *quiet = new (std::nothrow) Pair();
    delete quiet;
    { std::vector<std::string> names(20, std::string(100, 'n')); }
    std::printf("%ld %ld %d\n", after_sized, made, made == gone);
}
