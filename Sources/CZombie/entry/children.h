// Adapts the environment when the program executes another program. Async-signal-safe, also in a child that shares
// memory (vfork); errno is kept.

#ifndef ZG_CHILDREN_H
#define ZG_CHILDREN_H

#include "platform/base.h"

// How the environment of the executed program must change.
enum zg_children_change {
    zg_children_as_it_is,
    zg_children_without_us,   // the program cannot load the runtime: remove it from LD_PRELOAD
    zg_children_with_us,      // this process is Swift's package manager: restore the entries that are hidden from it
    zg_children_with_filters, // describe the seccomp filters, which stay in effect, to the program
};
enum zg_children_change zg_children_look(int directory, const char *path, char *const *environment);
// Like zg_children_look, for a program that is found by the search path of this process.
enum zg_children_change zg_children_look_for(const char *name, char *const *environment);

// Words and bytes that the caller must provide for the new environment.
struct zg_children_room {
    uint64_t words, bytes;
};
struct zg_children_room zg_children_room(char *const *environment);
// Writes the new environment to `words`, and the text of changed variables to `bytes`. All other words are copied.
void zg_children_write(char *const *environment, enum zg_children_change change, char **words, char *bytes);

#endif
