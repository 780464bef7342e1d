// Functions of the Swift runtime by names that the compiler does not know, since it takes for granted where it has called its own, and how
// they are declared. Optimised, and without information for debuggers: each of them is a jump.
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#define CALL(result, name, parameters, arguments)                                                                      \
    result swift_##name parameters;                                                                                    \
    result runtime_##name parameters;                                                                                  \
    result runtime_##name parameters { return swift_##name arguments; }

CALL(const void *, retain_n, (const void *object, uint32_t count), (object, count))
CALL(const void *, nonatomic_retain, (const void *object), (object))
CALL(const void *, tryRetain, (const void *object), (object))
CALL(const void *, bridgeObjectRetain, (const void *object), (object))
CALL(size_t, retainCount, (const void *object), (object))

#undef CALL
#define CALL(name, parameters, arguments)                                                                              \
    void swift_##name parameters;                                                                                      \
    void runtime_##name parameters;                                                                                    \
    void runtime_##name parameters { swift_##name arguments; }

CALL(release_n, (const void *object, uint32_t count), (object, count))
CALL(nonatomic_release, (const void *object), (object))
CALL(bridgeObjectRelease, (const void *object), (object))

int runtime_fork(void);
int runtime_fork(void) { return fork(); }
