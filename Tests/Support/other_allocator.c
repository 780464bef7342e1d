// Stands in for libmimalloc.a: has the functions that mimalloc defines in one object together with malloc. Static
// programs are linked with this archive behind the runtime's archive; the linker must not need this object.

// clang-format off
#define FUNCTIONS(X) \
    X(malloc) X(calloc) X(realloc) X(reallocarray) X(free) X(cfree) X(memalign) X(aligned_alloc) \
    X(posix_memalign) X(valloc) X(pvalloc) X(malloc_usable_size) X(strdup) X(strndup) X(__libc_malloc) \
    X(__libc_calloc) X(__libc_realloc) X(__libc_free) X(__libc_cfree) X(__libc_memalign) X(__libc_valloc) \
    X(__libc_pvalloc) X(_Znwm) X(_Znam) X(_ZnwmRKSt9nothrow_t) X(_ZnamRKSt9nothrow_t) X(_ZnwmSt11align_val_t) \
    X(_ZnamSt11align_val_t) X(_ZnwmSt11align_val_tRKSt9nothrow_t) X(_ZnamSt11align_val_tRKSt9nothrow_t) \
    X(_ZdlPv) X(_ZdaPv) X(_ZdlPvm) X(_ZdaPvm) X(_ZdlPvRKSt9nothrow_t) X(_ZdaPvRKSt9nothrow_t) \
    X(_ZdlPvSt11align_val_t) X(_ZdaPvSt11align_val_t) X(_ZdlPvmSt11align_val_t) X(_ZdaPvmSt11align_val_t) \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t) X(_ZdaPvSt11align_val_tRKSt9nothrow_t)
// clang-format on
#define DEFINE(name)                                                                                                   \
    void name(void) { __builtin_trap(); }

FUNCTIONS(DEFINE)
