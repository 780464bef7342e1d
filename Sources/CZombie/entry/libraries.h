// dlopen and dlclose: what follows from a library being loaded or unloaded. Cold; no lock.

#ifndef ZG_LIBRARIES_H
#define ZG_LIBRARIES_H

// Before a library is loaded: the flags to pass on, without RTLD_DEEPBIND, which would bind the library past us.
int zg_libraries_before_open(int flags);
void zg_libraries_before_close(void);

#endif
