// Functions and variables of the program's executable by its symbol table, which is in the file alone: what a statically linked
// runtime of Swift or C++ has is not exported.
// Cold: reads the file. No lock.

#ifndef ZG_SYMBOLS_H
#define ZG_SYMBOLS_H

#include "platform/base.h"

// Sections of programs that may have such a runtime inside: of Swift's metadata, of what C++ catches.
#define ZG_SYMBOLS_SWIFT "swift5_typeref"
#define ZG_SYMBOLS_CXX ".gcc_except_table"
// Writes the addresses of what has these names, 0 where there is nothing. False, and nothing is written, where the program has no
// symbol table, or no section of this name.
bool zg_symbols_of_program(const char *section, const char *const *names, uint64_t *addresses, uint64_t count);

#endif
