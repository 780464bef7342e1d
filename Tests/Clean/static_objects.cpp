// Static objects allocate before main and free after main, in reverse order.

#include <cstdio>
#include <map>
#include <string>
#include <vector>

struct Announcer {
    std::string name;
    explicit Announcer(const char *text) : name(std::string(text) + " with a name that is not short") {}
    ~Announcer() { std::printf("gone: %s\n", name.c_str()); }
};

static Announcer first("first");
static std::map<int, std::vector<std::string>> table = {{1, {"one", "two"}}, {2, {std::string(100, 'x')}}};
static Announcer second("second");

static Announcer &lazy() {
    static Announcer made("lazy");
    return made;
}

__attribute__((constructor(101))) static void early() { delete[] new char[100]; }

int main() {
    std::printf("%zu %s\n", table.size(), lazy().name.c_str());
    table[3].push_back(first.name + second.name);
}
