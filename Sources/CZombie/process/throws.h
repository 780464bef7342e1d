// Records the stack at which a C++ exception or Swift error is thrown (collect=crashes): __cxa_throw gets a detour, and
// the Swift runtime calls a hook. Records go to findings/thrown.h. Off by default; costs nothing until the program
// throws.

#ifndef ZG_THROWS_H
#define ZG_THROWS_H

// Call at start-up while the process has one thread.
void zg_throws_start(void);

#endif
