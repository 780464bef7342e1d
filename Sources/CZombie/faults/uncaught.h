// Finds the throw of the error that ends the program: a C++ exception, from the C++ runtime's data, or a Swift error,
// as observed at the throw (process/throws.c). Signal context; no lock.

#ifndef ZG_UNCAUGHT_H
#define ZG_UNCAUGHT_H

#include "platform/base.h"

// Returns the throw stack (depot id) of the error because of which the calling thread raises this signal. 0 if there
// was no error or its stack is unknown. `is_own`: the process raised the signal itself.
uint32_t zg_uncaught_thrown_at(int signal, bool is_own);

#endif
