// C++ programs that crash, one per function. The lines in front of the functions have the format of ways.c.
#include <any>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>
#include <variant>
#include <vector>
#include <unistd.h>

#define CASE extern "C" __attribute__((noinline, noclone)) void
static volatile int zero;

// dies: SIGABRT, crash, message=^terminate called after throwing an instance of 'std::runtime_error'\n +what\(\): +out of cheese$
CASE throw_error() { throw std::runtime_error("out of cheese"); }

// dies: SIGABRT, crash, message=^terminate called after throwing an instance of 'int'$
CASE throw_number() { throw 3; }

namespace shop {
struct Empty : std::exception {
    const char *what() const noexcept override { return "the shop is empty"; }
};
}
// dies: SIGABRT, crash, message=instance of 'shop::Empty'\n +what\(\): +the shop is empty$
CASE throw_own() { throw shop::Empty(); }

// dies: SIGABRT, crash, message=std::out_of_range.*__n \(which is 7\)
CASE at_end() {
    std::vector<int> numbers(3);
    zero = numbers.at(7 + zero);
}

// dies: SIGABRT, crash, message=__n < this->size
CASE behind_end() {
    std::vector<int> numbers(3);
    zero = numbers[7 + zero];
}

// dies: SIGABRT, crash, message=std::bad_alloc
CASE too_much() {
    char *volatile room = new char[(size_t)1 << 60];
    room[0] = 1;
}

// dies: SIGABRT, crash, message=std::bad_optional_access
CASE no_value() {
    std::optional<int> none;
    zero = none.value();
}

// dies: SIGABRT, crash, message=std::bad_variant_access
CASE other_variant() {
    std::variant<int, std::string> number = 3;
    zero = (int)std::get<std::string>(number).size();
}

// dies: SIGABRT, crash, message=std::bad_any_cast
CASE other_any() { zero = (int)std::any_cast<std::string>(std::any(3)).size(); }

// dies: SIGABRT, crash, message=std::bad_function_call
CASE no_function() { std::function<void()>()(); }

// dies: SIGABRT, crash, message=std::bad_cast
struct Base {
    virtual ~Base() = default;
};
struct Derived : Base {};
CASE other_class() {
    Base base;
    Base &reference = base;
    zero = (int)(uintptr_t)&dynamic_cast<Derived &>(reference);
}

struct Shape {
    Shape() { describe(); }
    virtual ~Shape() = default;
    __attribute__((noinline)) void describe() { draw(); }
    virtual void draw() = 0;
};
struct Circle : Shape {
    void draw() override {}
};
// dies: SIGABRT, crash, message=^pure virtual method called\nterminate called without an active exception$, top=Shape::describe()
CASE pure_virtual() { Circle circle; }

// dies: SIGABRT, crash, message=^terminate called after throwing an instance of 'char const\*'$
CASE throw_through() noexcept { throw "through"; }

struct Thrower {
    __attribute__((noinline)) ~Thrower() { throw std::logic_error("in a destructor"); }
};
// dies: SIGABRT, crash, message=what\(\): +in a destructor$, top=Thrower::~Thrower()
CASE throw_in_destructor() { Thrower thrower; }

// dies: SIGABRT, crash, message=^terminate called without an active exception$
CASE rethrow_nothing() { throw; }

static void wait_for_ever() {
    for (;;) pause();
}
// dies: SIGABRT, crash, message=^terminate called without an active exception$, threads=2
CASE thread_left() {
    std::thread thread(wait_for_ever);
    usleep(20000);
}

static void throw_in_thread_body() {
    usleep(20000);
    throw std::runtime_error("in a thread");
}
// dies: SIGABRT, crash, message=what\(\): +in a thread$, threads=3, top=throw_in_thread_body()
CASE throw_in_thread() {
    std::thread waiter(wait_for_ever), thrower(throw_in_thread_body);
    thrower.join();
}

// dies: SIGABRT, crash, message=what\(\): +std::future_error
CASE broken_promise() {
    std::promise<int> promise;
    promise.get_future();
    promise.get_future();
}

static void end() {
    fputs("the last words\n", stderr);
    abort();
}
// dies: SIGABRT, crash, message=^the last words$, top=end()
CASE own_terminate() {
    std::set_terminate(end);
    throw 3;
}

// dies: SIGABRT, crash, message=^terminate called without an active exception$
CASE terminate() { std::terminate(); }

static const struct {
    const char *name;
    void (*function)();
} cases[] = {
#define WAY(name) {#name, name}
    WAY(throw_error),  WAY(throw_number),        WAY(throw_own),       WAY(at_end),      WAY(behind_end),
    WAY(too_much),     WAY(no_value),            WAY(other_variant),   WAY(other_any),   WAY(no_function),
    WAY(other_class),  WAY(pure_virtual),        WAY(throw_through),   WAY(throw_in_destructor),
    WAY(rethrow_nothing), WAY(thread_left),      WAY(throw_in_thread), WAY(broken_promise), WAY(own_terminate), WAY(terminate),
};

int main(int argc, char **argv) {
    for (const auto &way : cases)
        if (argc > 1 && !strcmp(argv[1], way.name)) way.function();
    return 3;
}
