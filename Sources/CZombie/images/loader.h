// The dynamic linker's functions that we interpose, and what follows from a library being loaded or unloaded.
// Cold; no lock.

#ifndef ZG_LOADER_H
#define ZG_LOADER_H

#include "platform/base.h"

// Before a library is loaded: the flags to pass on, without RTLD_DEEPBIND, which would bind the library past us.
int zg_loader_before_open(int flags);
void zg_loader_before_close(void);
// The next definition of a symbol behind ours in the search order.
void *zg_loader_next(const char *symbol);

#endif
