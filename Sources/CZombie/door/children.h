// What the runtime does when the program executes another one. Signal-safe, also in a child that shares our memory; errno stays.

#ifndef ZG_CHILDREN_H
#define ZG_CHILDREN_H

#include "platform/base.h"

// The environment has the library in LD_PRELOAD, and the program cannot take it: it is to have another environment.
bool zg_children_cannot_take(int directory, const char *path, char *const *environment);
// The same for the program that the search path of this process leads to.
bool zg_children_found_cannot_take(const char *name, char *const *environment);

// Words and bytes of that other environment, for which its caller has room.
struct zg_children_room {
    uint64_t words, bytes;
};
struct zg_children_room zg_children_room(char *const *environment);
// Writes it: the entries themselves are the same, but for LD_PRELOAD without us.
void zg_children_write(char *const *environment, char **words, char *bytes);

#endif
