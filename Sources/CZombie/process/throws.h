// Where C++ exceptions and Swift errors are thrown (collect=crashes): __cxa_throw gets a detour, and Swift's runtime calls a hook. What is
// seen goes to findings/thrown.h. Off unless asked for; a program that throws nothing does nothing more with it.

#ifndef ZG_THROWS_H
#define ZG_THROWS_H

// The start, while the process has one thread.
void zg_throws_start(void);

#endif
