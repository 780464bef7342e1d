// What the runtime does when the program executes another one. Signal-safe, also in a child that shares our memory; errno stays.

#ifndef ZG_CHILDREN_H
#define ZG_CHILDREN_H

#include "platform/base.h"

// What the program's environment is to be.
enum zg_children_change {
    zg_children_as_it_is,
    zg_children_without_us,   // it cannot take the library, which stands in LD_PRELOAD
    zg_children_with_filters, // it will stand under filters of system calls that are known here
};
enum zg_children_change zg_children_look(int directory, const char *path, char *const *environment);
// The same for the program that the search path of this process leads to.
enum zg_children_change zg_children_look_for(const char *name, char *const *environment);

// Words and bytes of that other environment, for which its caller has room.
struct zg_children_room {
    uint64_t words, bytes;
};
struct zg_children_room zg_children_room(char *const *environment);
// Writes it: the entries themselves are the same, but for the one in question.
void zg_children_write(char *const *environment, enum zg_children_change change, char **words, char *bytes);

#endif
