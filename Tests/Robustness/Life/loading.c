// Scenarios of libraries that are loaded and unloaded, and of a second C library.

#include "scenario.h"

#include <dlfcn.h>
#include <link.h>

typedef void *(*make_function)(unsigned long);
typedef void (*free_function)(void *);

static const char *library_path(void) {
    static char path[4200];
    ssize_t bytes = readlink("/proc/self/exe", path, 4000);
    strcpy(path + (bytes > 0 ? bytes : 0), "_library.so");
    return path;
}
static void *open_library(int flags) {
    void *library = dlopen(library_path(), flags);
    if (!library) say("FAILED: %s", dlerror());
    return library;
}

static void *in_thread(void *library) {
    void (*with_thread)(void) = (void (*)(void))dlsym(library, "library_thread");
    with_thread();
    return NULL;
}

// Closes a library that has thread-local and static destructors and leaves a block unfreed.
static void gone(void) {
    void *kept[50];
    for (int i = 0; i < 50; i++) {
        void *library = open_library(i % 2 ? RTLD_NOW : RTLD_LAZY);
        if (!library) return;
        make_function make = (make_function)dlsym(library, "library_make");
        kept[i] = make(100 + (unsigned long)i * 10);
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, library);
        pthread_join(thread, NULL);
        dlclose(library);
        MUST(work_with_blocks(20) == 0, "works after a library has gone");
    }
    for (int i = 0; i < 50; i++) free(kept[i]);
}

// With RTLD_DEEPBIND a library would find libc's malloc first. The runtime drops the flag, so that the program and the
// library can free each other's blocks.
static void deep(void) {
    void *library = open_library(RTLD_NOW | RTLD_DEEPBIND);
    if (!library) return;
    make_function make = (make_function)dlsym(library, "library_make");
    free_function release = (free_function)dlsym(library, "library_free");
    for (int i = 0; i < 100; i++) {
        free(make(100));
        release(malloc(100));
        char *copy = make(3000);
        copy = realloc(copy, 70000);
        release(copy);
    }
    dlclose(library);
}

// A link namespace has a libc of its own, which the runtime does not interpose. Each side frees its own blocks;
// contents may be copied.
static void other_namespace(void) {
    void *library = dlmopen(LM_ID_NEWLM, library_path(), RTLD_NOW);
    if (!library) {
        say("FAILED: %s", dlerror());
        return;
    }
    make_function make = (make_function)dlsym(library, "library_make");
    free_function release = (free_function)dlsym(library, "library_free");
    for (int i = 0; i < 500; i++) {
        char *theirs = make(50 + (unsigned long)i * 13);
        memset(theirs, 1, 50);
        char *ours = malloc(200);
        memcpy(ours, theirs, 50);
        release(theirs);
        free(ours);
    }
    // Code of the namespace calls the program's malloc and free.
    void (*through)(void *(*)(size_t), void (*)(void *)) =
        (void (*)(void *(*)(size_t), void (*)(void *)))dlsym(library, "library_through");
    for (int i = 0; i < 50; i++) through(malloc, free);
    dlclose(library);
    MUST(work_with_blocks(100) == 0, "works after a namespace has gone");
}

static void *loads(void *unused) {
    for (int i = 0; i < 60; i++) {
        void *library = dlopen(library_path(), RTLD_NOW);
        if (library) dlclose(library);
    }
    return unused;
}
static void from_threads(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, loads, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

const struct scenario scenarios[] = {
    {"gone", gone, ""},
    {"deep", deep, ""},
    {"other-namespace", other_namespace, ""},
    {"from-threads", from_threads, ""},
    {NULL, NULL, NULL},
};
