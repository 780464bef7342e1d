// A reference to a string is used after the string was deleted.
// finding: use-after-free
// access: read
// block: size=32 offset=0 state=quarantined
// stack-access: first_character
// stack-free: delete_string
// stack-alloc: make_string
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"
#include <string>

FRAME std::string *make_string() {
    std::string *text = new std::string("short");
    HOLD(text);
    return text;
}

FRAME void delete_string(std::string *text) {
    delete text;
    KEEP_FRAME();
}

FRAME int first_character(const std::string &text) {
    int character = text.data()[0];
    HOLD(&text);
    return character;
}

int main() {
    std::string *text = make_string();
    const std::string &reference = *text;
#ifndef FIXED
    delete_string(text);
#endif
    printf("%c\n", first_character(reference));
#ifdef FIXED
    delete_string(text);
#endif
}
