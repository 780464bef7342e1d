// The library of loading.c: its constructors and destructors allocate, and it has thread-local objects.

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace {
struct Holder {
    char *block = static_cast<char *>(malloc(77));
    int *number = new int(5);
    Holder() { memset(block, 1, 77); }
    ~Holder() {
        free(block);
        delete number;
        free(malloc(500));
    }
};
thread_local Holder own;
Holder common;

// A constructor that loads another library.
struct Loader {
    void *library = dlopen("libresolv.so.2", RTLD_NOW);
    ~Loader() {
        if (library) dlclose(library);
    }
} loader;
} // namespace

extern "C" void *library_make(unsigned long size) {
    void *block = malloc(size);
    memset(block, 2, size);
    return block;
}
extern "C" void library_free(void *block) { free(block); }
extern "C" void library_thread(void) { own.block[0] = 3; }
extern "C" void library_through(void *(*allocate)(size_t), void (*release)(void *)) {
    void *block = allocate(300);
    memset(block, 3, 300);
    release(block);
}
