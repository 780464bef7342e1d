// The runtime's own calls of libc's memory functions, and plain implementations for use before libc's functions are
// found. Any context; no lock.

#ifndef ZG_PLAIN_CALLS_H
#define ZG_PLAIN_CALLS_H

#include "platform/base.h"

// Plain loops, which work before the loader has relocated this library. The loader relocates the other libraries first,
// and meanwhile a resolver of an indirect function (IFUNC) in one of them may call the memory functions.
void *zg_bare_memcpy(void *to, const void *from, size_t bytes);
void *zg_bare_memmove(void *to, const void *from, size_t bytes);
void *zg_bare_memset(void *to, int byte, size_t bytes);
int zg_bare_memcmp(const void *a, const void *b, size_t bytes);
int zg_bare_bcmp(const void *a, const void *b, size_t bytes);
void *zg_bare_memchr(const void *start, int byte, size_t bytes);
size_t zg_bare_strlen(const char *string);
int zg_bare_strcmp(const char *a, const char *b);
int zg_bare_strncmp(const char *a, const char *b, size_t most);
char *zg_bare_strchr(const char *string, int byte);

// The functions above to which the linker redirects the runtime's calls of libc's functions. The list must agree with
// the options --wrap in scripts/common.sh.
#define ZG_PLAIN_CALLS(X) X(memcpy) X(memmove) X(memset) X(memcmp) X(bcmp) X(memchr) X(strlen)

// Targets of the runtime's calls: the loops at first, libc's functions once they are known.
#define ZG_X(symbol) extern __typeof__(zg_bare_##symbol) *zg_plain_##symbol;
ZG_PLAIN_CALLS(ZG_X)
#undef ZG_X

#endif
