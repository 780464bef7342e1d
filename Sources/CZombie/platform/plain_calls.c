// Calls libc's memory functions for the runtime itself, and bypasses the functions of the same names that the library
// publishes. Hot path, any context. The linker option --wrap (scripts/common.sh) redirects the runtime's calls to here,
// including calls that the compiler generates. A call costs as much as a call through the procedure linkage table.

#include "platform/plain_calls.h"

// Keeps the compiler from replacing a loop by a call of the function that the loop implements.
#define PLAIN_LOOP() __asm__ volatile("")

// Unaligned word for the loops below. With loops over bytes, the heap's initialization would take a fifth more
// instructions.
typedef uint64_t __attribute__((aligned(1), may_alias)) loose_word;
enum { WORD = sizeof(loose_word) };

static void copy_forwards(char *to, const char *from, size_t bytes) {
    for (; bytes >= WORD; to += WORD, from += WORD, bytes -= WORD) {
        PLAIN_LOOP();
        *(loose_word *)to = *(const loose_word *)from;
    }
    for (; bytes; bytes--) {
        PLAIN_LOOP();
        *to++ = *from++;
    }
}

void *zg_bare_memmove(void *to, const void *from, size_t bytes) {
    char *t = to;
    const char *f = from;
    // If the target is in front of the source or does not overlap it, copying forwards overwrites no byte before
    // reading it.
    if ((uint64_t)t - (uint64_t)f >= bytes) copy_forwards(t, f, bytes);
    else
        while (bytes--) {
            PLAIN_LOOP();
            t[bytes] = f[bytes];
        }
    return to;
}

void *zg_bare_memcpy(void *to, const void *from, size_t bytes) { return zg_bare_memmove(to, from, bytes); }

void *zg_bare_memset(void *to, int byte, size_t bytes) {
    uint64_t word = (uint8_t)byte * UINT64_C(0x0101010101010101);
    char *t = to;
    for (; bytes >= WORD; t += WORD, bytes -= WORD) {
        PLAIN_LOOP();
        *(loose_word *)t = word;
    }
    for (; bytes; bytes--) {
        PLAIN_LOOP();
        *t++ = (char)byte;
    }
    return to;
}

int zg_bare_memcmp(const void *a, const void *b, size_t bytes) {
    const uint8_t *p = a, *q = b;
    for (size_t i = 0; i < bytes; i++) {
        PLAIN_LOOP();
        if (p[i] != q[i]) return p[i] - q[i];
    }
    return 0;
}

int zg_bare_bcmp(const void *a, const void *b, size_t bytes) { return zg_bare_memcmp(a, b, bytes); }

void *zg_bare_memchr(const void *start, int byte, size_t bytes) {
    const uint8_t *p = start;
    for (size_t i = 0; i < bytes; i++) {
        PLAIN_LOOP();
        if (p[i] == (uint8_t)byte) return (void *)(p + i);
    }
    return NULL;
}

size_t zg_bare_strlen(const char *string) {
    size_t length = 0;
    while (string[length]) {
        PLAIN_LOOP();
        length++;
    }
    return length;
}

int zg_bare_strncmp(const char *a, const char *b, size_t most) {
    for (size_t i = 0; i < most; i++) {
        PLAIN_LOOP();
        if (a[i] != b[i]) return (uint8_t)a[i] - (uint8_t)b[i];
        if (!a[i]) break;
    }
    return 0;
}

int zg_bare_strcmp(const char *a, const char *b) { return zg_bare_strncmp(a, b, SIZE_MAX); }

char *zg_bare_strchr(const char *string, int byte) {
    for (;; string++) {
        PLAIN_LOOP();
        if (*string == (char)byte) return (char *)string;
        if (!*string) return NULL;
    }
}

#define ZG_X(symbol) __typeof__(zg_bare_##symbol) *zg_plain_##symbol = zg_bare_##symbol;
ZG_PLAIN_CALLS(ZG_X)
#undef ZG_X

#define ZG_WRAP(result, symbol, parameters, arguments)                                                                 \
    result __wrap_##symbol parameters;                                                                                 \
    result __wrap_##symbol parameters { ZG_MUST_TAIL return zg_plain_##symbol arguments; }
ZG_WRAP(void *, memcpy, (void *to, const void *from, size_t bytes), (to, from, bytes))
ZG_WRAP(void *, memmove, (void *to, const void *from, size_t bytes), (to, from, bytes))
ZG_WRAP(void *, memset, (void *to, int byte, size_t bytes), (to, byte, bytes))
ZG_WRAP(int, memcmp, (const void *a, const void *b, size_t bytes), (a, b, bytes))
ZG_WRAP(int, bcmp, (const void *a, const void *b, size_t bytes), (a, b, bytes))
ZG_WRAP(void *, memchr, (const void *start, int byte, size_t bytes), (start, byte, bytes))
ZG_WRAP(size_t, strlen, (const char *string), (string))
