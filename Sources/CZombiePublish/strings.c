// Interposes libc's memory and string functions: checks some calls (entry/witness.h), then calls libc's function.
// Hot path, any context. The published functions tail-call libc's: a call that is not checked costs a comparison for
// each pointer, and stacks look as in an unguarded process, which keeps allocation stacks the same (strdup).
// libc's functions are looked up by a constructor, because dlsym takes the loader's lock. Until the constructor runs,
// every call takes the slow path, which looks up the function.

#define _GNU_SOURCE
#include "publish.h"

#include <string.h>
#include <strings.h>
#include <wchar.h>

#include "entry/witness.h"
#include "images/loader.h"
#include "platform/plain_calls.h"

// A test bundle publishes none of these functions: without the linker option --wrap, the runtime's own calls would
// reach them.
#ifdef ZG_IN_BUNDLE
typedef int zg_nothing_is_published_here; // ISO C forbids an empty translation unit
#else

// --- the functions ---------------------------------------------------------------------------------------------------

// Columns of the X-macro tables below: result, symbol, parameters, arguments, test whether a pointer is in the guarded
// heap, name of the function in findings, check.
#define ONE(pointer) zg_witness_concerns(pointer)
// The asm statement keeps the compiler from always testing both pointers: often the first one is in the guarded heap,
// and the second need not be tested.
#define TWO(a, b)                                                                                                      \
    (zg_witness_concerns(a) || ({                                                                                      \
         __asm__ volatile("");                                                                                         \
         zg_witness_concerns(b);                                                                                       \
     }))

// clang-format off
// Functions with a plain implementation, zg_bare_… (platform/plain_calls.h).
#define ZG_BARE_WITNESSES(X)                                                                                           \
    X(void *, memcpy, (void *to, const void *from, size_t n), (to, from, n), TWO(to, from), "memcpy", zg_witness_copy(&witness, to, from, n)) \
    X(void *, memmove, (void *to, const void *from, size_t n), (to, from, n), TWO(to, from), "memmove", zg_witness_copy(&witness, to, from, n)) \
    X(void *, memset, (void *to, int byte, size_t n), (to, byte, n), ONE(to), "memset", zg_witness_fill(&witness, to, n)) \
    X(int, memcmp, (const void *a, const void *b, size_t n), (a, b, n), TWO(a, b), "memcmp", zg_witness_compare(&witness, a, b, n)) \
    X(int, bcmp, (const void *a, const void *b, size_t n), (a, b, n), TWO(a, b), "memcmp", zg_witness_compare(&witness, a, b, n)) \
    X(void *, memchr, (const void *s, int byte, size_t n), (s, byte, n), ONE(s), "memchr", zg_witness_search(&witness, s, byte, n)) \
    X(size_t, strlen, (const char *s), (s), ONE(s), "strlen", zg_witness_string(&witness, s, ZG_WITNESS_ANY))          \
    X(int, strcmp, (const char *a, const char *b), (a, b), TWO(a, b), "strcmp", zg_witness_compare_strings(&witness, a, b, ZG_WITNESS_ANY, false)) \
    X(int, strncmp, (const char *a, const char *b, size_t n), (a, b, n), TWO(a, b), "strncmp", zg_witness_compare_strings(&witness, a, b, n, false)) \
    X(char *, strchr, (const char *s, int byte), (s, byte), ONE(s), "strchr", zg_witness_search_string(&witness, s, byte))

#define COPY(X, symbol, name)                                                                                          \
    X(void *, symbol, (void *to, const void *from, size_t n), (to, from, n), TWO(to, from), name, zg_witness_copy(&witness, to, from, n))
#define COPY_CHK(X, symbol, name)                                                                                      \
    X(void *, symbol, (void *to, const void *from, size_t n, size_t room), (to, from, n, room), TWO(to, from), name, zg_witness_copy(&witness, to, from, n))
#define COPY_STRING(X, symbol, name, appends)                                                                          \
    X(char *, symbol, (char *to, const char *from), (to, from), TWO(to, from), name, zg_witness_copy_string(&witness, to, from, ZG_WITNESS_ANY, appends))
#define COPY_STRING_CHK(X, symbol, name, appends)                                                                      \
    X(char *, symbol, (char *to, const char *from, size_t room), (to, from, room), TWO(to, from), name, zg_witness_copy_string(&witness, to, from, ZG_WITNESS_ANY, appends))
#define COPY_PADDED(X, symbol, name)                                                                                   \
    X(char *, symbol, (char *to, const char *from, size_t n), (to, from, n), TWO(to, from), name, zg_witness_copy_padded(&witness, to, from, n))
#define COPY_PADDED_CHK(X, symbol, name)                                                                               \
    X(char *, symbol, (char *to, const char *from, size_t n, size_t room), (to, from, n, room), TWO(to, from), name, zg_witness_copy_padded(&witness, to, from, n))
#define READ_STRING(X, type, symbol, name)                                                                             \
    X(type, symbol, (const char *s), (s), ONE(s), name, zg_witness_string(&witness, s, ZG_WITNESS_ANY))
#define READ_STRING_UP_TO(X, type, symbol, name)                                                                       \
    X(type, symbol, (const char *s, size_t n), (s, n), ONE(s), name, zg_witness_string(&witness, s, n))
#define NUMBER(X, type, symbol, name)                                                                                  \
    X(type, symbol, (const char *s, char **end, int base), (s, end, base), ONE(s), name, zg_witness_number(&witness, s, base))
#define DECIMAL(X, type, symbol, name)                                                                                 \
    X(type, symbol, (const char *s, char **end), (s, end), ONE(s), name, zg_witness_number(&witness, s, 10))
#define SHORT_NUMBER(X, type, symbol, name)                                                                            \
    X(type, symbol, (const char *s), (s), ONE(s), name, zg_witness_number(&witness, s, 10))
#define COPY_WIDE(X, symbol, name)                                                                                     \
    X(wchar_t *, symbol, (wchar_t *to, const wchar_t *from, size_t n), (to, from, n), TWO(to, from), name, zg_witness_copy(&witness, to, from, n * sizeof *to))

#define ZG_OTHER_WITNESSES(X)                                                                                          \
    COPY(X, mempcpy, "mempcpy")                                                                                        \
    COPY_CHK(X, __memcpy_chk, "memcpy") COPY_CHK(X, __memmove_chk, "memmove") COPY_CHK(X, __mempcpy_chk, "mempcpy")    \
    X(void *, __memset_chk, (void *to, int byte, size_t n, size_t room), (to, byte, n, room), ONE(to), "memset", zg_witness_fill(&witness, to, n)) \
    X(void *, memrchr, (const void *s, int byte, size_t n), (s, byte, n), ONE(s), "memrchr", zg_witness_search_back(&witness, s, byte, n)) \
    READ_STRING_UP_TO(X, size_t, strnlen, "strnlen")                                                                   \
    READ_STRING(X, char *, strdup, "strdup") READ_STRING_UP_TO(X, char *, strndup, "strndup")                          \
    COPY_STRING(X, strcpy, "strcpy", false) COPY_STRING_CHK(X, __strcpy_chk, "strcpy", false)                          \
    COPY_STRING(X, stpcpy, "stpcpy", false) COPY_STRING_CHK(X, __stpcpy_chk, "stpcpy", false)                          \
    COPY_STRING(X, strcat, "strcat", true) COPY_STRING_CHK(X, __strcat_chk, "strcat", true)                            \
    COPY_PADDED(X, strncpy, "strncpy") COPY_PADDED_CHK(X, __strncpy_chk, "strncpy")                                    \
    COPY_PADDED(X, stpncpy, "stpncpy") COPY_PADDED_CHK(X, __stpncpy_chk, "stpncpy")                                    \
    X(char *, strncat, (char *to, const char *from, size_t n), (to, from, n), TWO(to, from), "strncat", zg_witness_copy_string(&witness, to, from, n, true)) \
    X(char *, __strncat_chk, (char *to, const char *from, size_t n, size_t room), (to, from, n, room), TWO(to, from), "strncat", zg_witness_copy_string(&witness, to, from, n, true)) \
    X(int, strcasecmp, (const char *a, const char *b), (a, b), TWO(a, b), "strcasecmp", zg_witness_compare_strings(&witness, a, b, ZG_WITNESS_ANY, true)) \
    X(int, strncasecmp, (const char *a, const char *b, size_t n), (a, b, n), TWO(a, b), "strncasecmp", zg_witness_compare_strings(&witness, a, b, n, true)) \
    X(char *, strrchr, (const char *s, int byte), (s, byte), ONE(s), "strrchr", zg_witness_string(&witness, s, ZG_WITNESS_ANY)) \
    X(char *, strchrnul, (const char *s, int byte), (s, byte), ONE(s), "strchrnul", zg_witness_search_string(&witness, s, byte)) \
    X(char *, strstr, (const char *s, const char *wanted), (s, wanted), TWO(s, wanted), "strstr", zg_witness_find_string(&witness, s, wanted)) \
    NUMBER(X, long, strtol, "strtol") NUMBER(X, unsigned long, strtoul, "strtoul")                                     \
    NUMBER(X, long long, strtoll, "strtoll") NUMBER(X, unsigned long long, strtoull, "strtoull")                       \
    DECIMAL(X, double, strtod, "strtod") DECIMAL(X, float, strtof, "strtof") DECIMAL(X, long double, strtold, "strtold") \
    SHORT_NUMBER(X, int, atoi, "atoi") SHORT_NUMBER(X, long, atol, "atol") SHORT_NUMBER(X, long long, atoll, "atoll")  \
    SHORT_NUMBER(X, double, atof, "atof")                                                                              \
    X(size_t, wcslen, (const wchar_t *s), (s), ONE(s), "wcslen", zg_witness_wide_string(&witness, NULL, s))            \
    X(wchar_t *, wcscpy, (wchar_t *to, const wchar_t *from), (to, from), TWO(to, from), "wcscpy", zg_witness_wide_string(&witness, to, from)) \
    COPY_WIDE(X, wmemcpy, "wmemcpy") COPY_WIDE(X, wmemmove, "wmemmove")                                                \
    X(wchar_t *, wmemset, (wchar_t *to, wchar_t value, size_t n), (to, value, n), ONE(to), "wmemset", zg_witness_fill(&witness, to, n * sizeof *to))
// clang-format on

// Since glibc 2.38, programs compiled for C23 call strtol and similar functions by these names, which an older libc
// lacks.
#define ZG_NEW_WITNESSES(X)                                                                                            \
    NUMBER(X, long, __isoc23_strtol, "strtol")                                                                         \
    NUMBER(X, unsigned long, __isoc23_strtoul, "strtoul")                                                              \
    NUMBER(X, long long, __isoc23_strtoll, "strtoll")                                                                  \
    NUMBER(X, unsigned long long, __isoc23_strtoull, "strtoull")

// Whether the loader has relocated this library. The relocation sets `relocated`, which is NULL in the file.
static const char any_address;
static const char *const volatile relocated = &any_address;
static bool is_relocated(void) { return relocated != NULL; }

#define ZG_NEXT_POINTER(result, symbol, parameters, ...)                                                               \
    typedef result function_##symbol parameters;                                                                       \
    static function_##symbol *next_##symbol;
ZG_BARE_WITNESSES(ZG_NEXT_POINTER)
ZG_OTHER_WITNESSES(ZG_NEXT_POINTER)
ZG_NEW_WITNESSES(ZG_NEXT_POINTER)

// Defines a function that is called while next_… is not set: constructors of other libraries may run before this
// library's.
#define ZG_EARLY(result, symbol, parameters, arguments, ...)                                                           \
    static ZG_COLD result early_##symbol parameters {                                                                  \
        next_##symbol = (function_##symbol *)zg_loader_next(#symbol);                                                  \
        ZG_MUST_TAIL return next_##symbol arguments;                                                                   \
    }
#define ZG_EARLY_BARE(result, symbol, parameters, arguments, ...)                                                      \
    static ZG_COLD result early_##symbol parameters {                                                                  \
        if (!is_relocated()) return zg_bare_##symbol arguments;                                                        \
        next_##symbol = (function_##symbol *)zg_loader_next(#symbol);                                                  \
        ZG_MUST_TAIL return next_##symbol arguments;                                                                   \
    }
ZG_BARE_WITNESSES(ZG_EARLY_BARE)
ZG_OTHER_WITNESSES(ZG_EARLY)
ZG_NEW_WITNESSES(ZG_EARLY)

#ifndef ZG_NOTHING_IS_PUBLISHED
#define ZG_WITNESS(result, symbol, parameters, arguments, concerns, name, check)                                       \
    static ZG_NOINLINE result checked_##symbol parameters {                                                            \
        struct zg_witness witness;                                                                                     \
        if (ZG_UNLIKELY(!next_##symbol)) ZG_MUST_TAIL return early_##symbol arguments;                                 \
        if (zg_witness_begin(&witness, name, ZG_FRAME, __builtin_return_address(0))) {                                 \
            check;                                                                                                     \
            zg_witness_end(&witness);                                                                                  \
        }                                                                                                              \
        ZG_MUST_TAIL return next_##symbol arguments;                                                                   \
    }                                                                                                                  \
    ZG_PUBLISH result zg_published_##symbol parameters __asm__(#symbol);                                               \
    ZG_PUBLISH result zg_published_##symbol parameters {                                                               \
        if ((concerns) && ZG_UNLIKELY(zg_witness_is_due(__builtin_return_address(0))))                                 \
            ZG_MUST_TAIL return checked_##symbol arguments;                                                            \
        ZG_MUST_TAIL return next_##symbol arguments;                                                                   \
    }
ZG_BARE_WITNESSES(ZG_WITNESS)
ZG_OTHER_WITNESSES(ZG_WITNESS)
ZG_NEW_WITNESSES(ZG_WITNESS)
#endif

// --- start -----------------------------------------------------------------------------------------------------------

__attribute__((constructor(102))) static void find_functions(void) {
#define ZG_X(result, symbol, ...)                                                                                      \
    if (!next_##symbol) next_##symbol = (function_##symbol *)zg_loader_next(#symbol);
    ZG_BARE_WITNESSES(ZG_X)
    ZG_OTHER_WITNESSES(ZG_X)
    if (zg_libc_minor() >= 38) { // dlsym allocates if it fails
        ZG_NEW_WITNESSES(ZG_X)
    }
#undef ZG_X
#define ZG_X(symbol)                                                                                                   \
    if (next_##symbol) zg_plain_##symbol = next_##symbol;
    ZG_PLAIN_CALLS(ZG_X)
#undef ZG_X
    zg_witness_start();
}

#endif
