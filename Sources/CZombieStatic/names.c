// Defines functions only because other allocators define them. If such an allocator's library follows the archive
// (Swift's static SDK links mimalloc), a name that only that library defines would make the linker add its malloc as
// well: a multiple definition.
// strdup and strndup are hot paths; no lock.

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "publish.h"
#include "static.h"

// strdup and strndup share no helper function: its inlined frame would be the innermost frame of a block's stack.
ZG_PUBLISH char *strdup(const char *string) {
    size_t bytes = strlen(string) + 1;
    char *copy = malloc(bytes);
    ZG_NO_TAIL_CALL(copy);
    return copy ? __builtin_memcpy(copy, string, bytes) : NULL;
}

ZG_PUBLISH char *strndup(const char *string, size_t limit) {
    size_t bytes = strnlen(string, limit);
    char *copy = malloc(bytes + 1);
    ZG_NO_TAIL_CALL(copy);
    if (!copy) return NULL;
    copy[bytes] = 0;
    return __builtin_memcpy(copy, string, bytes);
}

#ifndef __GLIBC__
// musl allocates its own blocks by these functions, for exit handlers, locales and time zones. The blocks are not
// guarded: musl calls these functions under its locks, and never frees such a block by free.
ZG_PUBLISH void *__libc_malloc(size_t bytes) { return zg_static_malloc(bytes); }
ZG_PUBLISH void *__libc_calloc(size_t count, size_t size) { return zg_static_calloc(count, size); }
ZG_PUBLISH void *__libc_realloc(void *block, size_t bytes) { return zg_static_realloc(block, bytes); }
ZG_PUBLISH void __libc_free(void *block) { zg_static_free(block); }
#endif
