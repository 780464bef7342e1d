// Exceptions propagate through frames that allocate, and are copied and rethrown, also in another thread.
// libs: -lpthread

#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

__attribute__((noinline)) static int descend(int depth) {
    std::string text(static_cast<size_t>(depth) + 20, 'x');
    std::vector<std::unique_ptr<int>> values;
    for (int i = 0; i < depth; i++) values.push_back(std::make_unique<int>(i));
    if (depth == 0) throw std::runtime_error(text + " bottom");
    return descend(depth - 1) + static_cast<int>(values.size());
}

int main() {
    int caught = 0;
    for (int i = 0; i < 300; i++) {
        try {
            descend(i % 30);
        } catch (const std::exception &error) {
            caught += std::string(error.what()).size() == 27;
        }
    }
    std::printf("%d\n", caught);
    std::exception_ptr kept;
    std::thread([&] {
        try {
            descend(5);
        } catch (...) {
            kept = std::current_exception();
        }
    }).join();
    try {
        std::rethrow_exception(kept);
    } catch (const std::runtime_error &error) {
        std::puts(error.what());
    }
    std::future<int> future = std::async(std::launch::async, descend, 4);
    try {
        future.get();
    } catch (const std::runtime_error &error) {
        std::puts("from a future");
    }
}
