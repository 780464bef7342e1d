// Records where errors were thrown (collect=crashes), by the error's address, because C++ exceptions and Swift errors
// may move between threads. A small table keeps the newest throws. Any context; no lock.

#ifndef ZG_THROWN_H
#define ZG_THROWN_H

#include "platform/base.h"

// Records a throw; `stack` is its depot id. An error that is rethrown keeps the stack of its first throw, if its block
// shows that it is the same error.
void zg_thrown_note(uint64_t error, uint32_t stack);
// Returns the depot id of the error's throw stack; 0 if it is unknown, or if another error has this address now.
uint32_t zg_thrown_find(uint64_t error);

#endif
