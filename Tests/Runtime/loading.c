// dlopen and dlclose in a loop, with stacks captured in the library, from several threads.
// preload
// control
// library: loading_library.c

#include <dlfcn.h>
#include <pthread.h>

#include "life.h"

typedef int (*call)(void *(*allocate)(unsigned long), int depth, void **made);
static const char *path;

static void *allocate(unsigned long size) { return malloc(size); }

static void *load(void *rounds) {
    uint64_t wrong = 0;
    void *kept[32] = {0};
    for (uint64_t i = 0; i < (uint64_t)rounds; i++) {
        void *library = dlopen(path, i % 2 ? RTLD_NOW : RTLD_LAZY);
        call function = library ? (call)dlsym(library, "loading_call") : NULL;
        void *made = NULL;
        if (!function || !function(allocate, (int)(i % 10), &made)) wrong++;
        if (library) dlclose(library);
        // Free a block after the code that allocated it was unloaded.
        free(kept[i % 32]);
        kept[i % 32] = made;
        wrong += (uint64_t)work_with_blocks(3);
    }
    for (int i = 0; i < 32; i++) free(kept[i]);
    return (void *)wrong;
}

int main(int count, char **words) {
    (void)count;
    path = words[1];
    pthread_t threads[2];
    void *wrong = NULL;
    CHECK_EQUAL(load((void *)500), 0, "a library is loaded, used and unloaded");
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, load, (void *)500);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &wrong);
        CHECK_EQUAL(wrong, 0, "two threads load and unload");
    }
    CHECK(!dlopen("/nonexistent/library.so", RTLD_NOW), "a library that is not there is not loaded");
    CHECK(dlerror() != NULL, "and dlerror says why");
    CHECK(dlopen(NULL, RTLD_NOW) != NULL, "the program itself can be opened");
    void *deep = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
    CHECK(deep && dlsym(deep, "loading_call"), "RTLD_DEEPBIND loads the library all the same");
    if (deep) dlclose(deep);
    return check_end();
}
