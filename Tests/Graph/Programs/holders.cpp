// A freed block to which a C++ object still points. The argument chooses the case; the comment above a case says what
// the finding must name first: "// case: TEXT".

#include <any>
#include <array>
#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <variant>
#include <vector>

namespace shop {
struct Item {
    virtual ~Item() = default;
    virtual int price() const { return price_; }
    int price_ = 3;
    char more[180] = {};
};
struct Cart {
    virtual ~Cart() = default;
    long id = 1;
    Item *last = nullptr;
};
} // namespace shop

// Encodes an address, so that no search takes it for a pointer. The barrier makes the compiler finish earlier stores.
static uint64_t hidden(void *pointer) {
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return ~reinterpret_cast<uint64_t>(pointer);
}
static uint64_t kept;

// case: offset 16 of a live shop::Cart (allocated in
__attribute__((noinline)) static uint64_t member() {
    auto *cart = new shop::Cart;
    cart->last = new shop::Item;
    kept = hidden(cart);
    return hidden(cart->last);
}

// case: offset 16 of a live block of 80 bytes (allocated in vector(), holders.cpp:
__attribute__((noinline)) static uint64_t vector() {
    auto *items = new std::vector<shop::Item *>;
    items->reserve(10);
    for (int i = 0; i < 3; i++) items->push_back(new shop::Item);
    kept = hidden(items);
    return hidden(items->back());
}

// case: offset 40 of a live block of 48 bytes (allocated in
__attribute__((noinline)) static uint64_t map() {
    auto *items = new std::map<int, shop::Item *>;
    (*items)[5] = new shop::Item;
    kept = hidden(items);
    return hidden((*items)[5]);
}

static std::unique_ptr<shop::Item> owner;
// case: the global 'owner' (holders_cxx)
__attribute__((noinline)) static uint64_t global() {
    owner = std::make_unique<shop::Item>();
    return hidden(owner.get());
}

// case: offset 16 of a live block of 24 bytes (allocated in unordered_map(), holders.cpp:
__attribute__((noinline)) static uint64_t unordered_map() {
    auto *items = new std::unordered_map<long, shop::Item *>;
    for (int i = 0; i < 5; i++) (*items)[i] = nullptr;
    (*items)[77] = new shop::Item;
    kept = hidden(items);
    return hidden((*items)[77]);
}

// case: offset 16 of a live block of 24 bytes (allocated in
__attribute__((noinline)) static uint64_t list() {
    auto *items = new std::list<shop::Item *>{nullptr, new shop::Item, nullptr};
    kept = hidden(items);
    return hidden(*std::next(items->begin()));
}

// case: offset 24 of a live block of 512 bytes (allocated in
__attribute__((noinline)) static uint64_t deque() {
    auto *items = new std::deque<shop::Item *>{nullptr, nullptr, nullptr, new shop::Item};
    kept = hidden(items);
    return hidden(items->back());
}

namespace shop {
struct Shelf : Cart {
    int rows = 4;
    std::unique_ptr<Item> first;
};
struct Named {
    virtual ~Named() = default;
    const char *name = "a name";
    Item *icon = nullptr;
};
struct Window : Cart, Named {
    int width = 5;
};
struct Optional : Named {
    std::optional<Item *> picked;
    std::variant<int, double, Item *> choice;
    std::any extra;
};
} // namespace shop

// case: offset 16 of a live shop::Shelf (allocated in
__attribute__((noinline)) static uint64_t base_member() {
    auto *shelf = new shop::Shelf;
    shelf->last = new shop::Item;
    kept = hidden(shelf);
    return hidden(shelf->last);
}

// case: offset 40 of a live shop::Window (allocated in
__attribute__((noinline)) static uint64_t second_base() {
    auto *window = new shop::Window;
    window->icon = new shop::Item;
    kept = hidden(window);
    return hidden(window->icon);
}

// case: offset 32 of a live shop::Shelf (allocated in
__attribute__((noinline)) static uint64_t unique_pointer() {
    auto *shelf = new shop::Shelf;
    shelf->first = std::make_unique<shop::Item>();
    kept = hidden(shelf);
    return hidden(shelf->first.get());
}

// case: offset 24 of a live shop::Optional (allocated in
__attribute__((noinline)) static uint64_t optional() {
    auto *object = new shop::Optional;
    object->picked = new shop::Item;
    kept = hidden(object);
    return hidden(*object->picked);
}

// case: offset 40 of a live shop::Optional (allocated in
__attribute__((noinline)) static uint64_t variant() {
    auto *object = new shop::Optional;
    object->choice = new shop::Item;
    kept = hidden(object);
    return hidden(std::get<shop::Item *>(object->choice));
}

// case: offset 64 of a live shop::Optional (allocated in
__attribute__((noinline)) static uint64_t any() {
    auto *object = new shop::Optional;
    auto *item = new shop::Item;
    object->extra = item;
    kept = hidden(object);
    return hidden(item);
}

// The item is deleted while it is still shared: the control block and the vector have pointers to it.
// case: offset 16 of a live std::_Sp_counted_ptr<shop::Item*,
__attribute__((noinline)) static uint64_t shared_pointer() {
    auto *items = new std::vector<std::shared_ptr<shop::Item>>;
    items->reserve(3);
    items->emplace_back(new shop::Item);
    kept = hidden(items);
    return hidden(items->front().get());
}

// case: offset 8 of a live block of 24 bytes (allocated in function(), holders.cpp:
__attribute__((noinline)) static uint64_t function() {
    auto *item = new shop::Item;
    long before = 1, behind = 2;
    auto *handler = new std::function<long()>([before, item, behind] { return before + item->price() + behind; });
    kept = hidden(handler);
    return hidden(item);
}

template <typename Callable> struct Task {
    explicit Task(Callable callable) : run(std::move(callable)) {}
    virtual ~Task() = default;
    long state = 0;
    Callable run;
};
// case: offset 16 of a live Task<
__attribute__((noinline)) static uint64_t lambda() {
    auto *item = new shop::Item;
    auto run = [item] { return item->price(); };
    auto *task = new Task<decltype(run)>(run);
    kept = hidden(task);
    return hidden(item);
}

// case: offset 16 of a live block of 24 bytes (allocated in bound(), holders.cpp:
__attribute__((noinline)) static uint64_t bound() {
    auto *item = new shop::Item;
    auto *handlers = new std::map<int, std::function<int()>>;
    (*handlers)[1] = std::bind([](shop::Item *each, int more) { return each->price() + more; }, item, 5);
    kept = hidden(handlers);
    return hidden(item);
}

namespace shop {
struct Settings {
    Item *theme = nullptr;
    static Settings &shared() {
        static Settings settings;
        return settings;
    }
    static Item *fallback;
    static inline thread_local Item *recent = nullptr;
};
Item *Settings::fallback = nullptr;
} // namespace shop

// case: the global 'shop::Settings::shared()::settings' (holders_cxx)
__attribute__((noinline)) static uint64_t singleton() {
    shop::Settings::shared().theme = new shop::Item;
    return hidden(shop::Settings::shared().theme);
}

// case: the global 'shop::Settings::fallback' (holders_cxx)
__attribute__((noinline)) static uint64_t static_member() {
    shop::Settings::fallback = new shop::Item;
    return hidden(shop::Settings::fallback);
}

// case: the thread-local variable 'shop::Settings::recent' of thread 1 (holders_cxx)
__attribute__((noinline)) static uint64_t thread_local_member() {
    shop::Settings::recent = new shop::Item;
    return hidden(shop::Settings::recent);
}

static std::array<std::optional<shop::Item *>, 20> bins;
// case: the global 'bins' (holders_cxx)
__attribute__((noinline)) static uint64_t global_array() {
    bins[13] = new shop::Item;
    __asm__ volatile("" : : "r"(&bins) : "memory");
    return hidden(*bins[13]);
}

static std::promise<uint64_t> *started;
static void serve(shop::Item *item) {
    shop::Item *volatile local = item;
    started->set_value(hidden(item));
    for (; local;) pause();
}
// case: offset 8 of a live std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)(shop::Item*),
__attribute__((noinline)) static uint64_t thread_argument() {
    started = new std::promise<uint64_t>;
    auto answer = started->get_future();
    std::thread(serve, new shop::Item).detach();
    uint64_t result = answer.get();
    usleep(20000);
    return result;
}

// A suspended generator, whose coroutine frame has the local variable.
struct Generator {
    struct promise_type {
        Generator get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(uint64_t value) {
            last = value;
            return {};
        }
        void return_void() {}
        void unhandled_exception() {}
        uint64_t last = 0;
    };
    std::coroutine_handle<promise_type> handle;
};
static Generator generate() {
    auto *item = new shop::Item;
    co_yield hidden(item);
    co_yield static_cast<uint64_t>(item->price());
}
// case: offset 40 of a live block of 56 bytes (allocated in generate
__attribute__((noinline)) static uint64_t coroutine() {
    Generator generator = generate();
    generator.handle.resume();
    kept = hidden(generator.handle.address());
    return generator.handle.promise().last;
}

// case: offset 56 of a live std::_Sp_counted_ptr_inplace<std::__future_base::_Deferred_state<
__attribute__((noinline)) static uint64_t deferred() {
    auto *item = new shop::Item;
    auto *answer = new std::future<int>(std::async(std::launch::deferred, [item] { return item->price(); }));
    kept = hidden(answer);
    return hidden(item);
}

__attribute__((noinline)) static void scrub() {
    volatile char room[16384];
    memset(const_cast<char *>(room), 0, sizeof room);
}
__attribute__((noinline)) static void drop(uint64_t item) { delete reinterpret_cast<shop::Item *>(~item); }
__attribute__((noinline)) static int use(uint64_t item) { return reinterpret_cast<shop::Item *>(~item)->price(); }

int main(int count, char **words) {
    const struct {
        const char *name;
        uint64_t (*make)();
    } cases[] = {
        {"member", member},
        {"vector", vector},
        {"map", map},
        {"global", global},
        {"unordered-map", unordered_map},
        {"list", list},
        {"deque", deque},
        {"base-member", base_member},
        {"second-base", second_base},
        {"unique-pointer", unique_pointer},
        {"optional", optional},
        {"variant", variant},
        {"any", any},
        {"shared-pointer", shared_pointer},
        {"function", function},
        {"lambda", lambda},
        {"bound", bound},
        {"singleton", singleton},
        {"static-member", static_member},
        {"thread-local-member", thread_local_member},
        {"global-array", global_array},
        {"thread-argument", thread_argument},
        {"coroutine", coroutine},
        {"deferred", deferred},
    };
    for (const auto &each : cases) {
        if (count < 2 || strcmp(each.name, words[1])) continue;
        uint64_t item = each.make();
        drop(item);
        scrub();
        printf("%d\n", use(item));
        exit(0); // another thread waits for ever
    }
    return 2;
}
