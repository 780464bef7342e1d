// A program replaces operator new and delete by ones that call malloc and free: all forms must call the program's.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

static long made, gone;

void *operator new(std::size_t size) {
    void *block = std::malloc(size + 16);
    if (!block) throw std::bad_alloc();
    made++;
    return static_cast<char *>(block) + 16;
}

void *operator new[](std::size_t size) { return operator new(size); }

void operator delete(void *block) noexcept {
    if (!block) return;
    gone++;
    std::free(static_cast<char *>(block) - 16);
}

void operator delete[](void *block) noexcept { operator delete(block); }

void operator delete(void *block, std::size_t) noexcept { operator delete(block); }

void operator delete[](void *block, std::size_t) noexcept { operator delete(block); }

int main() {
    {
        std::vector<std::string> names;
        for (int i = 0; i < 100; i++) names.push_back(std::string(50, 'n'));
        std::shared_ptr<long> shared = std::make_shared<long>(4);
        long *array = new long[10];
        delete[] array;
        long *quiet = new (std::nothrow) long(5);
        delete quiet;
    }
    std::printf("%d %d\n", made == gone, made > 100);
}
