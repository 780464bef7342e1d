// Threads replace and read a shared_ptr; the thread that drops the last reference destroys the object.
// libs: -lpthread

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

struct Value {
    explicit Value(int number) : numbers(20, number) {}
    std::vector<int> numbers;
};

int main() {
    std::shared_ptr<Value> shared = std::make_shared<Value>(0);
    std::mutex lock;
    std::atomic<int> bad{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 10000; i++) {
                std::shared_ptr<Value> held;
                {
                    std::lock_guard<std::mutex> guard(lock);
                    if (i % 4 == t) shared = std::make_shared<Value>(i);
                    held = shared;
                }
                for (int number : held->numbers) bad += number != held->numbers[0];
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    std::printf("%d\n", bad.load());
}
