// The error that a program dies of, and where it was thrown: C++'s exceptions as their runtime keeps them, Swift's errors as it is told of
// them. Signal context; no lock.

#ifndef ZG_UNCAUGHT_H
#define ZG_UNCAUGHT_H

#include "platform/base.h"

// The stack in the depot where the error was thrown by which the calling thread raises this signal; 0: it has none, or it is not known.
// `is_own`: the program has raised the signal itself.
uint32_t zg_uncaught_thrown_at(int signal, bool is_own);

#endif
