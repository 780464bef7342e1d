// Uncaught C++ exceptions whose throw is no longer on the stack of the abort. The lines in front of the functions have
// the format of ways.c, and "thrown=" names the function that throws: with "?" if some compilers keep it on the abort's
// stack, "shown" if it always is on the abort's stack, "none" if no thrown exception ends the program.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <dlfcn.h>

#define CASE extern "C" __attribute__((noinline, noclone)) void
#define NOINLINE __attribute__((noinline, noclone))
static volatile int zero;

struct Guard { // its destructor is a cleanup, so that the unwinder pops frames before std::terminate
    std::string name;
    NOINLINE ~Guard() { zero = (int)name.size() * 0; }
};

NOINLINE static void out_of_cheese() { throw std::runtime_error("out of cheese"); }
NOINLINE static void in_the_shop() {
    Guard guard{"shop"};
    out_of_cheese();
    zero = 1;
}
NOINLINE static void never_throws() noexcept {
    Guard guard{"counter"};
    in_the_shop();
    zero = 2;
}

// dies: SIGABRT, crash, message=(what\(\):|:) +out of cheese$, thrown=out_of_cheese, top=never_throws
CASE noexcept_between() { never_throws(); }

// dies: SIGABRT, crash, message=(what\(\):|:) +out of cheese$, thrown=shown, top=out_of_cheese
CASE shown() { in_the_shop(); }

// dies: SIGABRT, crash, message=(what\(\):|:) +out of cheese$, thrown=out_of_cheese
CASE rethrown() {
    try {
        in_the_shop();
    } catch (...) {
        throw;
    }
}

NOINLINE static void another() { throw std::logic_error("another"); }
// The exception that is rethrown is not the one thrown last.
// dies: SIGABRT, crash, message=(what\(\):|:) +out of cheese$, thrown=out_of_cheese
CASE rethrown_after_another() {
    try {
        in_the_shop();
    } catch (...) {
        try {
            another();
        } catch (const std::logic_error &) {
        }
        throw;
    }
}

// dies: SIGABRT, crash, message=(what\(\):|:) +out of cheese$, thrown=out_of_cheese, threads=any
CASE of_a_future() {
    std::future<void> future = std::async(std::launch::async, in_the_shop);
    future.get();
}

// dies: SIGABRT, crash, message=(what\(\):|:) +out of cheese$, thrown=out_of_cheese
CASE kept() {
    std::exception_ptr kept;
    try {
        in_the_shop();
    } catch (...) {
        kept = std::current_exception();
    }
    try {
        another();
    } catch (const std::exception &) {
    }
    std::rethrow_exception(kept);
}

NOINLINE static void in_thread() { never_throws(); }
// dies: SIGABRT, crash, message=(what\(\):|:) +out of cheese$, thrown=out_of_cheese, top=never_throws, threads=any
CASE of_a_thread() {
    std::thread thread(in_thread);
    thread.join();
}

// dies: SIGABRT, crash, message=(what\(\):|:) +another$, thrown=another?
NOINLINE static void nested_noexcept() noexcept {
    Guard guard{"nested"};
    try {
        in_the_shop();
    } catch (...) {
        Guard inner{"inner"};
        another();
    }
}
CASE nested() { nested_noexcept(); }

// dies: SIGABRT, crash, message=(what\(\):|:) +out of cheese$, thrown=out_of_cheese
CASE abort_in_handler() {
    try {
        in_the_shop();
    } catch (const std::exception &error) {
        std::terminate();
    }
}

// The exception was made, not thrown, before it is rethrown.
// dies: SIGABRT, crash, message=what\(\): +made, thrown=none
CASE made() {
    for (int i = 0; i < 100; i++) {
        try {
            in_the_shop();
        } catch (const std::exception &) {
        }
    }
    std::rethrow_exception(std::make_exception_ptr(std::runtime_error("made")));
}

// The exception that was caught before is not the reason of the abort.
// dies: SIGABRT, crash, message=^terminate called without an active exception$|^libc\+\+abi: terminating$, thrown=none
CASE caught_before() {
    try {
        in_the_shop();
    } catch (const std::exception &) {
    }
    std::terminate();
}

// dies: SIGSEGV, null-access, thrown=none
CASE fault_in_handler() {
    try {
        in_the_shop();
    } catch (const std::exception &) {
        *(volatile int *)nullptr = 1;
    }
}

static void throw_and_catch(int times) {
    long sum = 0;
    for (int i = 0; i < times; i++) {
        try {
            if (i % 2) in_the_shop();
            else another();
        } catch (const std::runtime_error &error) {
            sum += error.what()[0];
        } catch (const std::logic_error &error) {
            sum += error.what()[1];
        }
    }
    printf("%ld\n", sum);
}

// lives: throws and catches in four threads, and passes exceptions on
CASE caught() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back(throw_and_catch, 3000);
    for (auto &thread : threads) thread.join();
    for (int i = 0; i < 100; i++) {
        try {
            std::async(std::launch::async, in_the_shop).get();
        } catch (const std::exception &error) {
            if (i == 99) puts(error.what());
        }
    }
}

// lives: throws and catches a million times, for measurements
CASE often() { throw_and_catch(1000000); }

// Prints whether the code of __cxa_throw in memory differs from that in its file.
CASE changed() {
    uint64_t function = (uint64_t)dlsym(RTLD_DEFAULT, "__cxa_throw"), start, end, offset;
    char line[4096], path[4096], code[16] = {};
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %s", &start, &end, &offset, path) == 4 && function - start < end - start) break;
    FILE *file = fopen(path, "r");
    fseek(file, (long)(offset + function - start), SEEK_SET);
    fread(code, 1, sizeof code, file);
    printf("changed %d\n", memcmp(code, (const void *)function, sizeof code) != 0);
}

static const struct {
    const char *name;
    void (*function)();
} cases[] = {
#define WAY(name) {#name, name}
    WAY(noexcept_between), WAY(shown), WAY(rethrown), WAY(rethrown_after_another), WAY(of_a_future),
    WAY(kept), WAY(of_a_thread), WAY(nested), WAY(abort_in_handler), WAY(made), WAY(caught_before),
    WAY(fault_in_handler), WAY(caught), WAY(often), WAY(changed),
};

int main(int argc, char **argv) {
    for (const auto &way : cases)
        if (argc > 1 && !strcmp(argv[1], way.name)) way.function();
    return 3;
}
