// Acts with the file rights of another user, for one call.

#ifndef ZG_RIGHTS_H
#define ZG_RIGHTS_H

#include <stddef.h>
#include <sys/types.h>

// The user, the group and `count` supplementary groups to act as.
struct zg_rights {
    uid_t user;
    gid_t group;
    const gid_t *groups;
    size_t count;
};

// Calls `act` in a thread that opens files with these rights and without capabilities, and waits for the thread to end.
// Returns 1; or 0, without calling `act`, if this process is not root's or the kernel does not let the thread give up
// root's rights.
int zg_rights_act(const struct zg_rights *rights, void (*act)(void *argument), void *argument);

#endif
