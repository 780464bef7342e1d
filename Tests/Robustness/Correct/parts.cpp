// Parts of generated correct C++ programs (correct.py), as in parts.c.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

using sum_t = unsigned long;
#define PART(name) __attribute__((noinline, unused)) static sum_t name

static std::string text_of(long length, long seed) {
    std::string text;
    for (long i = 0; i < length; i++) text.push_back(static_cast<char>('a' + (i * 7 + seed) % 26));
    return text;
}
static sum_t sum_text(std::string_view text) {
    sum_t sum = 0;
    for (char c : text) sum = sum * 33 + static_cast<unsigned char>(c);
    return sum;
}

PART(strings)(long size, long count) {
    std::vector<std::string> all;
    sum_t sum = 0;
    for (long i = 0; i < count; i++) all.push_back(text_of(size + i % 5, i));
    for (auto &text : all) text += all[text.size() % all.size()].substr(0, 9), text.shrink_to_fit();
    std::sort(all.begin(), all.end());
    for (const auto &text : all)
        sum = sum * 3 + sum_text(text) + text.find('q') % 100 + std::string(text.c_str()).size();
    std::vector<char> exact(all[0].begin(), all[0].end());
    return sum + sum_text({exact.data(), exact.size()});
}

PART(maps)(long size, long count) {
    std::map<std::string, std::vector<long>> ordered;
    std::unordered_map<long, std::unique_ptr<std::string>> hashed;
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        ordered[text_of(i % 30, i)].push_back(size);
        hashed[i % 50] = std::make_unique<std::string>(text_of(size, i));
        if (i % 7 == 6) ordered.erase(ordered.begin()), hashed.erase(i % 50);
    }
    for (auto &[key, value] : ordered) sum = sum * 3 + sum_text(key) + value.size();
    for (long i = 0; i < 50; i++)
        if (auto found = hashed.find(i); found != hashed.end()) sum = sum * 3 + sum_text(*found->second);
    return sum;
}

struct Base {
    virtual ~Base() = default;
    virtual sum_t value() const = 0;
};
template <int N> struct Derived : Base {
    long words[N] = {};
    std::string text;
    explicit Derived(long seed) : text(text_of(N, seed)) { words[N - 1] = seed; }
    sum_t value() const override { return sum_text(text) + static_cast<sum_t>(words[N - 1]); }
};
PART(objects)(long size, long count) {
    std::vector<std::shared_ptr<Base>> all;
    std::vector<std::weak_ptr<Base>> weak;
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        if ((i + size) % 3 == 0) all.push_back(std::make_shared<Derived<1>>(i));
        else if ((i + size) % 3 == 1) all.push_back(std::shared_ptr<Base>(new Derived<5>(i)));
        else all.push_back(std::make_unique<Derived<40>>(i));
        weak.push_back(all.back());
    }
    for (size_t i = 0; i < all.size(); i += 2) all[i].reset();
    for (auto &one : weak)
        if (auto object = one.lock()) sum = sum * 3 + object->value();
        else sum++;
    return sum;
}

struct Counted {
    static inline long live = 0;
    std::string text;
    Counted() : text(text_of(20, live++)) {}
    ~Counted() { live--; }
};
PART(arrays)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count % 30 + 1; i++) {
        std::unique_ptr<Counted[]> objects(new Counted[static_cast<size_t>(size % 50 + 1)]);
        std::unique_ptr<char[]> bytes(new char[static_cast<size_t>(size)]);
        std::unique_ptr<double[]> numbers(new double[static_cast<size_t>(size % 77 + 1)]());
        bytes[static_cast<size_t>(size) - 1] = 3;
        numbers[static_cast<size_t>(size % 77)] = 4;
        sum = sum * 3 + sum_text(objects[static_cast<size_t>(size % 50)].text) +
              static_cast<sum_t>(bytes[static_cast<size_t>(size) - 1]) +
              static_cast<sum_t>(numbers[static_cast<size_t>(size % 77)] + numbers[0]);
        struct alignas(64) Line {
            char bytes[64];
        };
        auto line = std::make_unique<Line>();
        if (reinterpret_cast<uintptr_t>(line.get()) % 64) std::abort();
        sum += static_cast<sum_t>(Counted::live);
    }
    return sum;
}

PART(sequences)(long size, long count) {
    std::deque<std::string> deque;
    std::list<long> list;
    std::set<std::pair<long, std::string>> set;
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        deque.push_back(text_of(size % 100, i));
        if (i % 3 == 2) sum += sum_text(deque.front()), deque.pop_front();
        list.push_front(i);
        set.emplace(i % 11, text_of(i % 20, size));
    }
    list.sort();
    list.remove_if([](long value) { return value % 2 == 0; });
    for (long value : list) sum = sum * 3 + static_cast<sum_t>(value);
    for (auto it = set.begin(); it != set.end();) it = it->first % 2 ? set.erase(it) : std::next(it);
    for (auto &[number, text] : set) sum = sum * 3 + static_cast<sum_t>(number) + sum_text(text);
    return sum;
}

PART(exceptions)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count % 40 + 1; i++) {
        try {
            auto kept = std::make_unique<std::string>(text_of(size, i));
            if (i % 2) throw std::runtime_error(*kept);
            std::vector<int>(static_cast<size_t>(size)).at(static_cast<size_t>(size) + 1);
        } catch (const std::out_of_range &) {
            sum = sum * 3 + 1;
        } catch (const std::exception &error) {
            sum = sum * 3 + sum_text(error.what());
        }
        std::exception_ptr saved;
        try {
            throw std::string(text_of(size, i));
        } catch (...) {
            saved = std::current_exception();
        }
        try {
            std::rethrow_exception(saved);
        } catch (const std::string &text) {
            sum += sum_text(text);
        }
    }
    return sum;
}

PART(closures)(long size, long count) {
    std::vector<std::function<sum_t(long)>> all;
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        std::string text = text_of(size, i);
        all.push_back([text, i](long n) { return sum_text(text) + static_cast<sum_t>(n * i); });
        if (i % 5 == 4) all.erase(all.begin());
    }
    for (auto &one : all) sum = sum * 3 + one(size);
    std::variant<long, std::string, std::vector<long>> value = size;
    for (long i = 0; i < count; i++) {
        if (i % 3 == 0) value = text_of(size, i);
        else if (i % 3 == 1) value = std::vector<long>(static_cast<size_t>(size), i);
        else value = i;
        sum = sum * 3 + value.index();
    }
    return sum;
}

PART(threads)(long size, long count) {
    std::vector<std::future<std::string>> all;
    std::mutex lock;
    std::vector<std::string> shared;
    std::atomic<sum_t> total = 0;
    for (long i = 0; i < count % 12 + 1; i++)
        all.push_back(std::async(std::launch::async, [&, i] {
            std::string text = text_of(size, i);
            {
                std::lock_guard guard(lock);
                shared.push_back(text);
            }
            total += sum_text(text);
            return text;
        }));
    sum_t sum = 0;
    for (auto &one : all) sum = sum * 3 + sum_text(one.get());
    return sum + total + shared.size();
}

PART(streams)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count % 30 + 1; i++) {
        std::ostringstream out;
        out << text_of(size, i) << ' ' << i << ' ' << 1.5 * static_cast<double>(i);
        std::istringstream in(out.str());
        std::string word;
        while (in >> word) sum = sum * 3 + sum_text(word);
    }
    return sum;
}

PART(pools)(long size, long count) {
    std::pmr::monotonic_buffer_resource arena;
    std::pmr::unsynchronized_pool_resource pool(&arena);
    std::pmr::vector<std::pmr::string> all(&pool);
    sum_t sum = 0;
    for (long i = 0; i < count; i++) all.emplace_back(text_of(size, i));
    for (auto &text : all) sum = sum * 3 + sum_text(text);
    return sum;
}

// Blocks from operator new in many sizes, aligned as new promises, used by vector instructions.
PART(vectors)(long size, long count) {
    sum_t sum = 0;
    for (long i = 0; i < count; i++) {
        std::vector<double> a(static_cast<size_t>(size % 200 + i % 5 + 1), 1.5), b(a.size());
        for (size_t j = 0; j < a.size(); j++) b[j] = a[j] * static_cast<double>(j % 7) + 2;
        std::vector<double> c(b);
        c.push_back(std::accumulate(b.begin(), b.end(), 0.0));
        c.insert(c.begin() + static_cast<long>(c.size()) / 2, 4.5);
        c.erase(c.begin());
        sum = sum * 3 + static_cast<sum_t>(c.back());
        std::vector<bool> bits(static_cast<size_t>(size), true);
        bits[static_cast<size_t>(size) - 1] = false;
        sum += static_cast<sum_t>(std::count(bits.begin(), bits.end(), true));
    }
    return sum;
}
