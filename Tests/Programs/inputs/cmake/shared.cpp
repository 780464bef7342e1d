#include "config.h"
#include <algorithm>
#include <map>
#include <string>
#include <vector>
extern "C" int shared(int count) {
    std::map<std::string, std::vector<int>> table;
    for (int i = 0; i < count; i++) table["key" + std::to_string(i % 31)].push_back(i * 7919 % 1009);
    int sum = 0;
    for (auto &[name, values] : table) {
        std::sort(values.begin(), values.end());
        sum += values[values.size() / 2] + (int)name.size();
    }
    return sum;
}
