// Standard containers of strings are filled, sorted, moved and copied.

#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

int main() {
    std::unordered_map<std::string, int> words;
    std::map<int, std::list<std::string>> by_length;
    std::deque<std::unique_ptr<std::string>> queue;
    unsigned seed = 7;
    for (int i = 0; i < 50000; i++) {
        seed = seed * 1103515245 + 12345;
        std::string word((seed >> 16) % 40 + 1, static_cast<char>('a' + (seed >> 22) % 26));
        words[word]++;
        by_length[static_cast<int>(word.size())].push_back(word);
        queue.push_back(std::make_unique<std::string>(std::move(word)));
        if (queue.size() > 1000) queue.pop_front();
    }
    std::vector<std::function<int()>> calls;
    for (auto &entry : by_length) {
        entry.second.sort();
        entry.second.unique();
        calls.push_back([values = entry.second] { return static_cast<int>(values.size()); });
    }
    int sum = 0;
    for (auto &call : calls) sum += call();
    std::ostringstream text;
    text << words.size() << ' ' << sum << ' ' << queue.size();
    std::set<std::string> copies;
    for (auto &item : queue) copies.insert(*item);
    text << ' ' << copies.size();
    std::puts(text.str().c_str());
}
