// Aliases of Swift runtime functions: swiftc has its own declarations of the real names and assumes that it alone
// inserts calls to them. Built with -O2 and without debug information, so that each alias is a tail call.
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
