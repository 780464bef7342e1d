// The character buffer of a string is written after the string was deleted.
// finding: write-after-free
// access: write
// block: size=101 offset=7 state=quarantined
// stack-access: - (the writer is gone)
// stack-free: ~drop_string
// stack-alloc: ~make_string
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"
#include <string>

FRAME std::string *make_string() {
    std::string *text = new std::string(100, 'x');
    HOLD(text);
    return text;
}

FRAME void drop_string(std::string *text) {
    delete text;
    KEEP_FRAME();
}

FRAME void capitalize(char *character) { *character = 'X'; }

int main() {
    std::string *text = make_string();
    char *eighth = &(*text)[7];
#ifdef FIXED
    capitalize(eighth);
    drop_string(text);
#else
    drop_string(text);
    capitalize(eighth);
#endif
    puts("end");
}
