// Opening files that another user has a say in, with that user's rights in place of root's. Cold; the rights are those of the calling
// thread alone, which libc's own functions would change for all threads.

#include "zg_system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static uid_t file_user(void) { return (uid_t)syscall(SYS_setfsuid, -1L); } // an impossible user changes nothing

int zg_system_take_file_rights(uid_t user, gid_t group) {
    // Whoever is not root has no more rights than its own, and cannot change them.
    if (geteuid() != 0 || user == 0) return 0;
    if (syscall(SYS_setgroups, 0L, NULL) != 0) return -errno;
    syscall(SYS_setfsgid, (long)group);
    syscall(SYS_setfsuid, (long)user);
    return file_user() == user ? 0 : -EPERM;
}

int zg_system_open_handle(int handle, int flags, uid_t user, gid_t group) {
    // The link leads to the file of the handle, whatever its name stands for by now.
    char link[48];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    if (geteuid() != 0 || user == 0) {
        int opened = open(link, flags | O_CLOEXEC);
        return opened < 0 ? -errno : opened;
    }
    int count = (int)syscall(SYS_getgroups, 0L, NULL);
    gid_t *groups = count < 0 ? NULL : malloc(((size_t)count + 1) * sizeof *groups), own_group = getegid();
    if (!groups || syscall(SYS_getgroups, (long)count, groups) != count) {
        free(groups);
        return -ENOMEM;
    }
    // Where the kernel does not let go of rights (root without CAP_SETUID), the caller's checks of the file stand alone.
    zg_system_take_file_rights(user, group);
    int opened = open(link, flags | O_CLOEXEC), error = errno;
    syscall(SYS_setfsuid, 0L);
    syscall(SYS_setfsgid, (long)own_group);
    // A thread that went on with another's rights could be made to do anything with them.
    if (file_user() != 0 || (syscall(SYS_setgroups, (long)count, groups) != 0 && errno != EPERM)) abort();
    free(groups);
    return opened < 0 ? -error : opened;
}

int zg_system_seals(int descriptor) {
    int seals = fcntl(descriptor, F_GET_SEALS);
    return seals < 0 ? -errno : seals;
}

const int zg_system_seals_of_size = F_SEAL_SHRINK | F_SEAL_GROW;
