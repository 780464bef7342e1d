// dlopen and dlclose in a loop, with images found by the loader's list.
// preload
// library: loading_library.c
// options: find_object=0

#include "loading.c"
