// Looks up symbols in the dynamic linker's search order. Cold; takes the loader's lock.
// Functions that belonged to libdl or libpthread before glibc 2.34 are referenced weakly, because a program may link
// neither library. The references name the oldest symbol version of each function, which every glibc has.

#ifndef ZG_LOADER_H
#define ZG_LOADER_H

#include "platform/arch.h"
#include "platform/libc.h"

// The target CZombieStatic compiles the runtime with ZG_STATIC for static executables, which contain the program, libc
// and the runtime in one image. There is no loader, so the target has a table of the functions that a loader would find
// behind the runtime in the search order.
struct zg_static_function {
    const char *name;
    void *function;
};
#ifdef ZG_STATIC
extern const struct zg_static_function zg_static_functions[]; // ends with a NULL name
enum { zg_loader_is_static = true };
// Returns true if the function belongs to the runtime.
ZG_INLINE bool zg_loader_is_own(const void *function) {
    extern const char __start_zg_text[], __stop_zg_text[];
    return (const char *)function >= __start_zg_text && (const char *)function < __stop_zg_text;
}
// Returns true if all operators new and delete of the executable belong to the runtime.
bool zg_static_operators_are_own(void);
#define ZG_SINCE_FIRST_GLIBC(symbol) __asm__(symbol) __attribute__((weak)) // the static linker has no symbol versions
#define libcs_search ((void *(*)(void *, const char *))NULL)
#else
enum { zg_loader_is_static = false };
// Use behind a declaration: binds the function to the symbol's oldest version, or to NULL if the symbol is missing.
#define ZG_SINCE_FIRST_GLIBC(symbol) __asm__(symbol "@" ZG_ARCH_FIRST_GLIBC) __attribute__((weak))
// libc's dlsym. NULL in programs without libdl before glibc 2.34.
extern void *libcs_search(void *from, const char *symbol) ZG_SINCE_FIRST_GLIBC("dlsym");
#endif

// Returns the next definition of a symbol behind the runtime in the search order, or NULL.
void *zg_loader_next(const char *symbol);
// Returns the first definition of a symbol in the search order, or NULL.
void *zg_loader_first(const char *symbol);

#endif
