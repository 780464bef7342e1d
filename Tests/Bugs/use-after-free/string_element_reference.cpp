// A reference to a string in a vector is used after the vector reallocated its elements.
// finding: use-after-free
// access: read
// block: size=64 offset=32 state=quarantined
// stack-access: first_character
// stack-free: ~add_names
// stack-alloc: ~make_names
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"
#include <string>
#include <vector>

FRAME void make_names(std::vector<std::string> &names) {
    names.reserve(2);
    names.emplace_back("first");
    names.emplace_back("second");
}

FRAME void add_names(std::vector<std::string> &names) {
    names.resize(50);
    KEEP_FRAME();
}

FRAME int first_character(const std::string &name) {
    int character = name.data()[0];
    HOLD(&name);
    return character;
}

int main() {
    std::vector<std::string> names;
    make_names(names);
    const std::string *second = &names[1];
    add_names(names);
#ifdef FIXED
    second = &names[1];
#endif
    printf("%c\n", first_character(*second));
}
