// A library's constructor starts a thread and waits for it; the thread frees a block that looks like an object.
// preload
// control
// library: constructor_thread_library.c

#include <dlfcn.h>

#include "check.h"

int main(int count, char **words) {
    (void)count;
    void *library = dlopen(words[1], RTLD_NOW);
    CHECK(library, "the library is loaded");
    const long *freed = library ? dlsym(library, "constructor_thread_freed") : NULL;
    CHECK(freed && *freed == 1, "and its constructor came to its end");
    return check_end();
}
