// The destructor of a thread_local object frees, at thread exit, a block that the thread has freed already.
// finding: double-free
// access: free
// block: size=112 offset=0 state=quarantined
// stack-access: Cache::~Cache
// stack-free: drop_entries
// stack-alloc: make_entries
// exit: 134
// confidence: exact
// libs: -lpthread
// options: isolated_per_context=0

#include "../bug.h"
#include <thread>

FRAME char *make_entries() {
    char *entries = static_cast<char *>(malloc(112));
    strcpy(entries, "entries");
    return entries;
}

struct Cache {
    char *entries = nullptr;
    FRAME ~Cache() {
        free(entries);
        KEEP_FRAME();
    }
};

static thread_local Cache cache;

FRAME void drop_entries(char *entries) {
    free(entries);
    KEEP_FRAME();
}

int main() {
    std::thread([] {
        cache.entries = make_entries();
        puts(cache.entries);
        drop_entries(cache.entries);
#ifdef FIXED
        cache.entries = nullptr;
#endif
    }).join();
}
