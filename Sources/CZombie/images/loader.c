// Looks up symbols in the dynamic linker's search order. Cold; takes the loader's lock.

#define _GNU_SOURCE
#include "images/loader.h"

#include <dlfcn.h>

#include "images/module.h"

#ifdef ZG_STATIC
static void *in_table(const char *symbol) {
    const struct zg_static_function *function = zg_static_functions;
    while (function->name && __builtin_strcmp(function->name, symbol) != 0) function++;
    return function->function;
}

void *zg_loader_next(const char *symbol) { return in_table(symbol); }
void *zg_loader_first(const char *symbol) { return in_table(symbol); }
#else
typedef void *search_function(void *from, const char *symbol);

// dlsym resolves RTLD_NEXT relative to the image that calls it. A tail call would make the runtime's caller the caller
// of dlsym; using the result after the call prevents a tail call.
#define ZG_CALLED_HERE(result) __asm__ volatile("" : "+r"(result))

// Replaces dlsym for C libraries before glibc 2.34, whose functions are spread over several libraries. There dlsym
// fails for many functions. Each failure allocates a message for dlerror, and the next search frees the message: in a
// program whose own free() calls dlsym(RTLD_NEXT), this recursion would never end. Besides, the program may have opened
// one of the libraries with RTLD_LOCAL: the library's calls reach the runtime, but RTLD_NEXT does not find the library.
static void *search_parts(void *from, const char *symbol) {
    return from == RTLD_NEXT ? zg_module_next_function(symbol) : zg_module_function(symbol);
}

static search_function choose;
static search_function *search = choose;

static void *choose(void *from, const char *symbol) {
    search_function *chosen = libcs_search && zg_libc_minor() >= 34 ? libcs_search : search_parts;
    __atomic_store_n(&search, chosen, __ATOMIC_RELAXED);
    void *found = chosen(from, symbol);
    ZG_CALLED_HERE(found);
    return found;
}

void *zg_loader_next(const char *symbol) { return __atomic_load_n(&search, __ATOMIC_RELAXED)(RTLD_NEXT, symbol); }
void *zg_loader_first(const char *symbol) { return __atomic_load_n(&search, __ATOMIC_RELAXED)(RTLD_DEFAULT, symbol); }
#endif
