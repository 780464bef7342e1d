// Frames of C++ code without frame pointers, for unwinding.c: exceptions, virtual calls, alloca, wide alignment.

#include <alloca.h>
#include <cstring>
#include <functional>
#include <stdexcept>

extern "C" void cxx_frames(void (*point)(void *), void *context, int depth);

namespace {

struct Base {
    virtual ~Base() = default;
    virtual void call(void (*point)(void *), void *context, int depth) = 0;
};

struct Plain : Base {
    void call(void (*point)(void *), void *context, int depth) override {
        cxx_frames(point, context, depth - 1);
        asm volatile("" ::: "memory");
    }
};

struct WithAlloca : Base {
    void call(void (*point)(void *), void *context, int depth) override {
        char *room = static_cast<char *>(alloca(static_cast<std::size_t>(depth * 48 + 17)));
        std::memset(room, depth, static_cast<std::size_t>(depth * 48 + 17));
        cxx_frames(point, context, depth - 1);
        asm volatile("" ::"r"(room) : "memory");
    }
};

struct Aligned : Base {
    void call(void (*point)(void *), void *context, int depth) override {
        alignas(128) char room[256];
        room[depth] = 1;
        asm volatile("" ::"r"(room) : "memory");
        cxx_frames(point, context, depth - 1);
        asm volatile("" ::"r"(room) : "memory");
    }
};

struct Catching : Base {
    void call(void (*point)(void *), void *context, int depth) override {
        try {
            cxx_frames(point, context, depth - 1);
            throw std::runtime_error("on the way back");
        } catch (const std::runtime_error &) {
            point(context); // inside an exception handler
        }
    }
};

struct ThroughFunction : Base {
    void call(void (*point)(void *), void *context, int depth) override {
        std::function<void(int)> inner = [=](int next) { cxx_frames(point, context, next); };
        inner(depth - 1);
        asm volatile("" ::: "memory");
    }
};

} // namespace

extern "C" void cxx_frames(void (*point)(void *), void *context, int depth) {
    Plain plain;
    WithAlloca with_alloca;
    Aligned aligned;
    Catching catching;
    ThroughFunction through;
    Base *kinds[] = {&plain, &with_alloca, &aligned, &catching, &through};
    point(context);
    if (depth > 0) kinds[depth % 5]->call(point, context, depth);
    asm volatile("" ::: "memory");
}
