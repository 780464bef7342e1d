// Reacts to dlopen and dlclose. Cold; no lock.

#ifndef ZG_LIBRARIES_H
#define ZG_LIBRARIES_H

// Call before a library is loaded. Returns the flags without RTLD_DEEPBIND, which would bind the library to libc's
// functions instead of the runtime's.
int zg_libraries_before_open(int flags);
void zg_libraries_before_close(void);

#endif
