// The dynamic linker's search order, behind our own definitions. Cold; takes the loader's lock.

#ifndef ZG_LOADER_H
#define ZG_LOADER_H

// The next definition of a symbol behind ours in the search order; NULL where there is none.
void *zg_loader_next(const char *symbol);

#endif
