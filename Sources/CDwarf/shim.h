// elfutils' libdw: symbols, line tables and build-ids of ELF files.

#ifndef ZG_CDWARF_SHIM_H
#define ZG_CDWARF_SHIM_H

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>

#endif
