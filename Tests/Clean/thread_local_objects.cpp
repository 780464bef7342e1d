// Each thread constructs thread_local objects, whose destructors free blocks when the thread ends, main's at exit.
// libs: -lpthread

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> gone;

struct Cache {
    std::vector<std::string> entries;
    ~Cache() { gone += static_cast<int>(entries.size()); }
};

static thread_local Cache cache;
static thread_local std::string name = std::string(60, 't');

static void work(int count) {
    for (int i = 0; i < count; i++) cache.entries.push_back(name + std::to_string(i));
}

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 40; i++) threads.emplace_back(work, 25);
    for (std::thread &thread : threads) thread.join();
    work(3);
    std::printf("%d\n", gone.load());
}
