// An executable counts allocations in its own malloc and free, which operator new and delete still have to call.
// static: the program defines malloc or free, too

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

extern "C" void *__libc_malloc(std::size_t size);
extern "C" void __libc_free(void *block);

static volatile unsigned made, freed;

extern "C" void *malloc(std::size_t size) {
    made = made + 1;
    return __libc_malloc(size);
}

extern "C" void free(void *block) {
    freed = freed + (block != nullptr);
    __libc_free(block);
}

int main() {
    unsigned made_before = made, freed_before = freed;
    {
        auto number = std::make_unique<int>(4);
        auto list = std::make_unique<double[]>(100);
        std::string text(100, 'x');
        list[99] = *number + static_cast<double>(text.size());
    }
    unsigned made_here = made - made_before, freed_here = freed - freed_before;
    std::printf("%u made, %u freed\n", made_here, freed_here);
    return 0;
}
