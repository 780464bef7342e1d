// The dynamic linker's search order. Cold; the loader's lock.

#define _GNU_SOURCE
#include "images/loader.h"

#include <dlfcn.h>

void *zg_loader_next(const char *symbol) { return dlsym(RTLD_NEXT, symbol); }
