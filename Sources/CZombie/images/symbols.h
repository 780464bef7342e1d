// Looks up functions and variables in the symbol table of the program's executable.
// A statically linked Swift or C++ runtime does not export its functions: only the symbol table in the file (.symtab)
// names them. Cold: reads the file. No lock.

#ifndef ZG_SYMBOLS_H
#define ZG_SYMBOLS_H

#include "platform/base.h"

// Values for `section`: Swift metadata, which every program with Swift code has, and C++ exception tables, which every
// program with C++ code has. Hardly any other program has these sections.
#define ZG_SYMBOLS_SWIFT "swift5_typeref"
#define ZG_SYMBOLS_CXX ".gcc_except_table"
// Writes the address of each of `count` names to `addresses`, 0 for a name that is not found. Returns false and writes
// nothing if the executable has no symbol table or no section named `section`.
bool zg_symbols_of_program(const char *section, const char *const *names, uint64_t *addresses, uint64_t count);

#endif
