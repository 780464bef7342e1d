// An array of objects is freed by delete, not delete[]. The pointer to the first object points behind the array cookie.
// finding: dealloc-mismatch
// access: free
// block: size=104 offset=8 state=live
// stack-access: drop_names
// stack-alloc: make_names
// exit: 99
// confidence: exact
// detail: allocated_with="operator new[]" freed_with="operator delete"

#include <string>

#include "../bug.h"

FRAME std::string *make_names() {
    std::string *names = new std::string[3];
    names[1] = "a name that is longer than what fits into the object";
    KEEP_FRAME();
    return names;
}

FRAME void drop_names(std::string *names) {
#ifdef FIXED
    delete[] names;
#else
    std::string second = std::move(names[1]);
    delete names;
#endif
    KEEP_FRAME();
}

int main() {
    std::string *names = make_names();
    printf("%zu\n", names[1].size());
    drop_names(names);
    printf("goes on\n");
}
