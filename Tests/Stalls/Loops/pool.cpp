// Server whose event loop blocks on a future, until its thread pool has handled the request; one request takes 0.8 s.
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <queue>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

class Pool {
    std::mutex mutex;
    std::condition_variable changed;
    std::queue<std::packaged_task<int()>> tasks;
    bool isOver = false;
    std::vector<std::thread> threads;

    void work() {
        for (;;) {
            std::unique_lock lock(mutex);
            changed.wait(lock, [this] { return isOver || !tasks.empty(); });
            if (tasks.empty()) return;
            auto task = std::move(tasks.front());
            tasks.pop();
            lock.unlock();
            task();
        }
    }

  public:
    Pool() {
        for (int i = 0; i < 3; i++) threads.emplace_back([this] { work(); });
    }
    ~Pool() {
        {
            std::lock_guard lock(mutex);
            isOver = true;
        }
        changed.notify_all();
        for (auto &thread : threads) thread.join();
    }
    std::future<int> add(std::function<int()> work) {
        std::packaged_task<int()> task(std::move(work));
        auto future = task.get_future();
        std::lock_guard lock(mutex);
        tasks.push(std::move(task));
        changed.notify_one();
        return future;
    }
};

[[gnu::noinline]] static int answer_by_pool(Pool &pool, int request) {
    return pool
        .add([request] {
            usleep(request == 3 ? 800000 : 1000);
            return request + 1;
        })
        .get();
}

int main() {
    Pool pool;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    socklen_t length = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(server, reinterpret_cast<sockaddr *>(&address), length) || listen(server, 8)) return 2;
    getsockname(server, reinterpret_cast<sockaddr *>(&address), &length);
    std::thread client([address] {
        for (int i = 0; i < 6; i++) {
            int file = socket(AF_INET, SOCK_STREAM, 0);
            char byte = 0;
            if (connect(file, reinterpret_cast<const sockaddr *>(&address), sizeof address)) abort();
            usleep(20000);
            if (write(file, "x", 1) != 1 || read(file, &byte, 1) != 1) abort();
            close(file);
        }
    });
    std::vector<pollfd> files{{server, POLLIN, 0}};
    for (int served = 0; served < 6 || files.size() > 1;) {
        poll(files.data(), files.size(), -1);
        if (files[0].revents) files.push_back({accept(server, nullptr, nullptr), POLLIN, 0});
        for (size_t i = files.size(); i-- > 1;) {
            char byte;
            if (!files[i].revents) continue;
            if (read(files[i].fd, &byte, 1) == 1) {
                byte = static_cast<char>(answer_by_pool(pool, served++));
                if (write(files[i].fd, &byte, 1) != 1) abort();
            } else {
                close(files[i].fd);
                files.erase(files.begin() + static_cast<long>(i));
            }
        }
    }
    client.join();
}
