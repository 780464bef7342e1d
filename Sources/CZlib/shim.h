// zlib: compressed reports.

#ifndef ZG_CZLIB_SHIM_H
#define ZG_CZLIB_SHIM_H

#include <zlib.h>

#endif
