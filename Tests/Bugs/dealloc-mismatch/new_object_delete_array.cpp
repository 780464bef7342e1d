// delete[] of a single object reads an array cookie (the count) from the red zone in front of the object.
// finding: dealloc-mismatch
// access: free
// block: size=32 state=live
// stack-access: ~drop_name
// stack-alloc: make_name
// exit: 139
// confidence: inferred
// detail: allocated_with="operator new" freed_with="delete[]"

#include <string>

#include "../bug.h"

FRAME std::string *make_name() {
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
}
