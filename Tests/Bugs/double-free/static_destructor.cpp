// The destructor of a static object deletes, after main, an array that main has deleted already.
// finding: double-free
// access: free
// block: size=20 offset=0 state=quarantined
// stack-access: Registry::~Registry
// stack-free: close_registry
// stack-alloc: Registry::Registry
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

struct Registry {
    char *names;
    FRAME Registry() : names(new char[20]) { strcpy(names, "names"); }
    FRAME ~Registry() {
        delete[] names;
        KEEP_FRAME();
    }
};

static Registry registry;

FRAME void close_registry() {
    delete[] registry.names;
#ifdef FIXED
    registry.names = nullptr;
#endif
    KEEP_FRAME();
}

int main() {
    puts(registry.names);
    close_registry();
}
