// delete[] of a single object reads a count of 0 from the word in front of the object and frees the word's address.
// finding: dealloc-mismatch
// access: free
// block: size=32 offset=0 state=live
// stack-access: drop_name
// stack-alloc: make_name
// exit: 99
// confidence: exact
// options: isolated_per_context=0
// detail: allocated_with="operator new" freed_with="operator delete[]"

#include <string>

#include "../bug.h"

FRAME std::string *make_name() {
    // Blocks that end with zeros. The object lies behind one of them, so the word in front of the object is 0.
    static void *before[64];
    for (void *&block : before) block = calloc(1, 24);
    std::string *name = new std::string("short");
    KEEP_FRAME();
    return name;
}

FRAME void drop_name(std::string *name) {
#ifdef FIXED
    delete name;
#else
    delete[] name;
#endif
    KEEP_FRAME();
}

int main() {
    std::string *name = make_name();
    printf("%s\n", name->c_str());
    drop_name(name);
    printf("goes on\n");
}
