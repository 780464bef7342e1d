// Every form of operator new works with its own operator delete and keeps the alignment it promises.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

struct alignas(256) Wide {
    char bytes[512];
};

struct Counted {
    long value = 1;
    ~Counted() { value = 0; }
};

static bool is_aligned(void *block, std::uintptr_t alignment) {
    std::memset(block, 1, 40);
    return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

int main() {
    const std::align_val_t wide{128};
    bool good = true;
    for (int i = 0; i < 100; i++) {
        void *blocks[8] = {::operator new(40),
                           ::operator new[](40),
                           ::operator new(40, std::nothrow),
                           ::operator new[](40, std::nothrow),
                           ::operator new(40, wide),
                           ::operator new[](40, wide),
                           ::operator new(40, wide, std::nothrow),
                           ::operator new[](40, wide, std::nothrow)};
        for (int j = 0; j < 8; j++) good &= is_aligned(blocks[j], j < 4 ? 16 : 128);
        ::operator delete(blocks[0]);
        ::operator delete[](blocks[1]);
        ::operator delete(blocks[2], std::nothrow);
        ::operator delete[](blocks[3], std::nothrow);
        ::operator delete(blocks[4], wide);
        ::operator delete[](blocks[5], wide);
        ::operator delete(blocks[6], wide, std::nothrow);
        ::operator delete[](blocks[7], wide, std::nothrow);
        ::operator delete(::operator new(40), std::size_t(40));
        ::operator delete[](::operator new[](40), std::size_t(40));
        ::operator delete(::operator new(40, wide), std::size_t(40), wide);
        ::operator delete[](::operator new[](40, wide), std::size_t(40), wide);
        Wide *one = new Wide, *many = new Wide[3];
        good &= is_aligned(one, 256) && is_aligned(many, 256);
        delete one;
        delete[] many;
        Counted *counted = new Counted[10];
        delete[] counted;
        delete[] new Counted[static_cast<std::size_t>(i % 2)];
        delete[] new char[static_cast<std::size_t>(i % 2)];
        delete static_cast<Counted *>(nullptr);
        ::operator delete(::operator new(0));
    }
    std::printf("%d\n", good);
}
