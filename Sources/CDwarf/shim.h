// elfutils' libelf and libdw, the numbers of DWARF, and the loader's auxiliary vector.

#ifndef ZG_CDWARF_SHIM_H
#define ZG_CDWARF_SHIM_H

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <sys/auxv.h>

#endif
