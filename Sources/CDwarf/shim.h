// elfutils' libdw: symbols, debug information and build-ids of ELF files.

#ifndef ZG_CDWARF_SHIM_H
#define ZG_CDWARF_SHIM_H

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>

#endif
