// C++ containers: maps of strings to vectors, an unordered map, a list, shared pointers.
#include "bench.h"
#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

int main(int argc, char **argv) {
    long rounds = bench_rounds(argc, argv, 22);
    bench_random r = {5};
    std::uint64_t sum = 0;
    std::map<std::string, std::vector<std::string>> index;
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < 40000; i++) {
            std::string key = "a rather long key, number " + std::to_string(bench_next(&r, 9000));
            auto &list = index[key];
            list.push_back("value " + std::to_string(i) + std::string(bench_next(&r, 40), 'x'));
            if (list.size() > 8) index.erase(key);
        }
        std::unordered_map<int, std::shared_ptr<std::string>> shared;
        for (int i = 0; i < 60000; i++)
            shared[int(bench_next(&r, 20000))] = std::make_shared<std::string>(bench_next(&r, 60), 'y');
        for (auto &[key, text] : shared) sum += text->size();
        std::list<std::vector<int>> lists;
        for (int i = 0; i < 30000; i++) {
            lists.emplace_back(1 + bench_next(&r, 50), i);
            if (lists.size() > 1000) lists.pop_front();
        }
        for (auto &list : lists) sum += list.size();
        std::vector<std::string> sorted;
        for (auto &[key, list] : index) sorted.push_back(key + list.front());
        std::sort(sorted.begin(), sorted.end(), [](auto &a, auto &b) {
            return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
        });
        sum += sorted.size();
    }
    std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
