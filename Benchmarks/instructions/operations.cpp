// Operations for counting instructions, not for timing: operations NAME COUNT. Without a name it prints all names.
// Everything that determines a path through the library is fixed: sizes, order, call sites, and which thread runs next.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <semaphore.h>

#define NOINLINE __attribute__((noinline))
// Placed behind a call: prevents a tail call, and keeps the compiler from merging it with the calls of other sites.
#define STAY(number) __asm__ volatile("" ::"i"(number) : "memory")

namespace {

// Hides a pointer's origin from the compiler, which could otherwise remove a pair of malloc and free.
template <typename T> T *opaque(T *pointer) {
    __asm__ volatile("" : "+r"(pointer)::"memory");
    return pointer;
}

NOINLINE void pair(std::size_t size) {
    std::free(opaque(std::malloc(size)));
    STAY(0);
}

void pair_64(long count) {
    while (count-- > 0) pair(64);
}

void pair_1000(long count) {
    while (count-- > 0) pair(1000);
}

void window(long count) {
    constexpr long length = 10000;
    static void *blocks[length];
    for (long i = 0; i < count; i++) {
        std::free(blocks[i % length]);
        blocks[i % length] = std::malloc(96);
    }
    for (void *block : blocks) std::free(block);
}

void zeroed(long count) {
    while (count-- > 0) std::free(opaque(std::calloc(10, 20)));
}

// Grows one buffer from 16 bytes to 4 KiB, again and again. An operation is one realloc.
void growing(long count) {
    void *buffer = nullptr;
    std::size_t size = 16;
    while (count-- > 0) {
        buffer = opaque(std::realloc(buffer, size));
        size += size / 2;
        if (size <= 4096) continue;
        std::free(buffer);
        buffer = nullptr, size = 16;
    }
    std::free(buffer);
}

struct Object {
    long fields[6];
};
void new_delete(long count) {
    while (count-- > 0) delete opaque(new Object);
}

// -- stacks --

constexpr int depth = 20;

NOINLINE void at_depth(int left, void (*work)(long), long count) {
    if (left > 0) at_depth(left - 1, work, count);
    else work(count);
    STAY(1);
}

// Always the same stack, of more than 20 frames.
void known_stack(long count) { at_depth(depth, pair_64, count); }

#define SITE(n, call)                                                                                                  \
    case n:                                                                                                            \
        call;                                                                                                          \
        STAY(n);                                                                                                       \
        break;
// clang-format off
#define SITES_8(n, call)                                                                                               \
    SITE(n, call) SITE(n + 1, call) SITE(n + 2, call) SITE(n + 3, call)                                                \
    SITE(n + 4, call) SITE(n + 5, call) SITE(n + 6, call) SITE(n + 7, call)
#define SITES_64(call)                                                                                                 \
    SITES_8(0, call) SITES_8(8, call) SITES_8(16, call) SITES_8(24, call)                                              \
    SITES_8(32, call) SITES_8(40, call) SITES_8(48, call) SITES_8(56, call)
// clang-format on

NOINLINE void inner(int site) {
    switch (site) { SITES_64(pair(64)) }
}
NOINLINE void middle(int site, int inner_site) {
    switch (site) { SITES_64(inner(inner_site)) }
}

// Uses 4,096 stacks in turn, more than a thread's stack cache holds. They differ only in the frames of inner() and
// middle().
void alternating(long count) {
    for (long i = 0; i < count; i++) {
        int stack = static_cast<int>(i * 2731 % 4096);
        middle(stack / 64, stack % 64);
    }
}
void changing_stack(long count) { at_depth(depth, alternating, count); }

// Makes a different stack for every number: each bit of the number selects one of two functions for a frame.
NOINLINE void path(long number, int bits) {
    if (bits == 0) {
        pair(64);
    } else if (number & 1) {
        path(number >> 1, bits - 1);
        STAY(2);
    } else {
        path(number >> 1, bits - 1);
        STAY(3);
    }
}
void new_stack(long count) {
    for (long i = 0; i < count; i++) path(i, 20);
}

// -- threads --

constexpr long batch = 64;

struct Ring {
    void *blocks[batch];
    sem_t full, empty;
    long batches;
};

void *free_batches(void *argument) {
    auto *ring = static_cast<Ring *>(argument);
    for (long i = 0; i < ring->batches; i++) {
        sem_wait(&ring->full);
        for (void *block : ring->blocks) std::free(block);
        sem_post(&ring->empty);
    }
    return nullptr;
}

// Two threads that never run at once: one fills the batch, then the other frees it.
void other_thread(long count) {
    static Ring ring;
    ring.batches = count / batch;
    sem_init(&ring.full, 0, 0);
    sem_init(&ring.empty, 0, 0);
    pthread_t thread;
    if (pthread_create(&thread, nullptr, free_batches, &ring) != 0) std::exit(1);
    for (long i = 0; i < ring.batches; i++) {
        for (void *&block : ring.blocks) block = std::malloc(64);
        sem_post(&ring.full);
        sem_wait(&ring.empty);
    }
    pthread_join(thread, nullptr);
}

// -- libc's functions --

// Calls in one operation. The number of checked calls depends on time; among 300 calls, the checks are negligible.
constexpr int calls = 300;

// Each call goes through a pointer whose value is hidden from the compiler, so that the compiler inlines no call.
void string_length(long count) {
    char *string = static_cast<char *>(std::calloc(1, 9));
    auto function = opaque(static_cast<std::size_t (*)(const char *)>(std::strlen));
    for (int i = 0; i < 8; i++) string[i] = 's';
    for (long i = 0; i < count * calls; i++) function(string);
    std::free(string);
}

void short_copy(long count) {
    void *from = std::calloc(1, 32), *to = std::malloc(32);
    auto function = opaque(static_cast<void *(*)(void *, const void *, std::size_t)>(std::memcpy));
    for (long i = 0; i < count * calls; i++) function(to, from, 32);
    std::free(from);
    std::free(to);
}

struct Operation {
    const char *name;
    void (*run)(long count);
};

const Operation operations[] = {
    {"pair-64", pair_64},
    {"pair-1000", pair_1000},
    {"window-10000", window},
    {"calloc", zeroed},
    {"realloc", growing},
    {"new-delete", new_delete},
    {"known-stack", known_stack},
    {"trail", changing_stack},
    {"new-stack", new_stack},
    {"other-thread", other_thread},
    {"300-strlen-8", string_length},
    {"300-memcpy-32", short_copy},
};

} // namespace

int main(int argc, char **argv) {
    for (const Operation &operation : operations) {
        if (argc < 3) std::puts(operation.name);
        else if (std::strcmp(argv[1], operation.name) == 0) return operation.run(std::atol(argv[2])), 0;
    }
    return argc < 3 ? 0 : 64;
}
