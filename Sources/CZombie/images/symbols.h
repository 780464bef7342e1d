// Functions of the program's executable by its symbol table, which is in the file alone: a statically linked Swift runtime exports none.
// Cold: reads the file. No lock.

#ifndef ZG_SYMBOLS_H
#define ZG_SYMBOLS_H

#include "platform/base.h"

// Writes the addresses of the functions of these names, 0 where there is none. False, and nothing is written, where the program has no
// symbol table, or no metadata of Swift.
bool zg_symbols_of_swift_program(const char *const *names, uint64_t *addresses, uint64_t count);

#endif
