// The dynamic linker's search order. Cold; the loader's lock.

#define _GNU_SOURCE
#include "images/loader.h"

#include <dlfcn.h>

#include "images/module.h"

typedef void *search_function(void *from, const char *symbol);

// libc's search goes by who calls it: its caller is to be this library, whatever called us.
#define ZG_CALLED_HERE(result) __asm__ volatile("" : "+r"(result))

// Where libc is several libraries many functions are missing, and a search that fails leaves a message for dlerror, which the next one
// frees: in a program whose free looks for the next one it would never end. One of the libraries may also have been opened by the program,
// for itself alone: its calls come to ours, and the search order does not lead back.
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
