// A failing operator new calls the new handler and throws; the nothrow forms return null.

#include <cstdint>
#include <cstdio>
#include <new>

static int calls;

static void on_shortage() {
    if (++calls == 3) std::set_new_handler(nullptr);
}

int main() {
    volatile std::size_t huge = PTRDIFF_MAX - 100, negative = SIZE_MAX / 8;
    try {
        void *block = ::operator new(huge);
        std::printf("%p\n", block);
    } catch (const std::bad_alloc &) {
        std::puts("bad_alloc");
    }
    std::printf("%d\n", ::operator new(huge, std::nothrow) == nullptr);
    std::printf("%d\n", ::operator new[](huge, std::nothrow) == nullptr);
    std::printf("%d\n", ::operator new(huge, std::align_val_t(64), std::nothrow) == nullptr);
    std::set_new_handler(on_shortage);
    try {
        void *block = ::operator new[](huge, std::align_val_t(128));
        std::printf("%p\n", block);
    } catch (const std::bad_alloc &) {
        std::printf("bad_alloc after %d calls\n", calls);
    }
    try {
        long *array = new long[negative + 1];
        std::printf("%p\n", static_cast<void *>(array));
    } catch (const std::bad_alloc &) {
        std::puts("bad_alloc");
    }
    delete new long(3);
}
