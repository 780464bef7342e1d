// Opens a file whose path another user has written, for example in a report. Resolves the path, and opens the result
// without following links, with that user's rights (rights.h), or only if everyone may read the file. Cold; no state,
// no locks.

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "rights.h"
#include "zg_system.h"

enum { MOST_GROUPS = 1024, LONGEST_ENTRY = 64 << 10 };

// The user to whom file modes must grant access, in addition to the kernel's check for this process.
struct mode_check {
    int is_asked; // 0: the kernel's check is enough
    int has_user; // 0: modes must grant access to everyone
    uid_t user;
};

// Whether the mode grants a right, given as the mode's bit for others. Always true for root, and if the kernel's check
// is enough. If the group lacks a right that others have, the right is denied, because the user may be in the group.
static int is_granted(const struct mode_check *check, const struct stat *status, mode_t right) {
    if (!check->is_asked || (check->has_user && check->user == 0)) return 1;
    if (check->has_user && status->st_uid == check->user) return (status->st_mode & right << 6) != 0;
    return (status->st_mode & right) != 0 && (status->st_mode & right << 3) != 0;
}

// Whether a file is on a pseudo file system such as /proc or /sys. The kernel generates the contents of such files,
// often depending on the process that reads them.
static int is_made_up(int descriptor) {
    struct statfs system;
    if (fstatfs(descriptor, &system) != 0) return 1;
    return system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC || system.f_type == DEBUGFS_MAGIC ||
           system.f_type == TRACEFS_MAGIC || system.f_type == SECURITYFS_MAGIC;
}

static int open_last(int directory, const char *name, const struct mode_check *check) {
    struct stat status;
    // Check the type before opening: opening a device can have side effects, and opening a FIFO can block.
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return -errno;
    if (!S_ISREG(status.st_mode)) return S_ISLNK(status.st_mode) ? -ELOOP : -EINVAL;
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0) return -errno;
    // Check again: the name may refer to another file by now.
    int error = fstat(file, &status) != 0              ? errno
                : !S_ISREG(status.st_mode)             ? EINVAL
                : is_made_up(file)                     ? EINVAL
                : !is_granted(check, &status, S_IROTH) ? EACCES
                                                       : 0;
    if (error == 0) return file;
    close(file);
    return -error;
}

// Opens a resolved path directory by directory. Links created since it was resolved are not followed, and the mode of
// every directory on the way is checked.
static int open_resolved(const char *path, const struct mode_check *check) {
    int directory = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return -errno;
    for (;;) {
        path += strspn(path, "/");
        struct stat status;
        int error = fstat(directory, &status) != 0 ? errno : !is_granted(check, &status, S_IXOTH) ? EACCES : 0;
        size_t length = strcspn(path, "/");
        char name[NAME_MAX + 1];
        if (error == 0 && (length == 0 || length > NAME_MAX)) error = length == 0 ? EISDIR : ENAMETOOLONG;
        if (error != 0) {
            close(directory);
            return -error;
        }
        memcpy(name, path, length);
        name[length] = 0;
        path += length;
        int next = *path == 0 ? open_last(directory, name, check)
                              : openat(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int failure = *path != 0 && next < 0 ? -errno : next;
        close(directory);
        if (*path == 0 || next < 0) return failure;
        directory = next;
    }
}

static int open_checked(const char *path, const struct mode_check *check, char *resolved) {
    return realpath(path, resolved) == NULL ? -errno : open_resolved(resolved, check);
}

struct request {
    const char *path;
    char *resolved;
    gid_t group;
    gid_t groups[MOST_GROUPS];
    int group_count;
    int result;
};

static void open_plainly(void *argument) {
    struct request *request = argument;
    struct mode_check none = {0};
    request->result = open_checked(request->path, &none, request->resolved);
}

// Finds the groups of a user; only "nogroup" if the user is not in the password database.
static void find_groups(uid_t user, struct request *request) {
    enum { NOGROUP = 65534 };
    struct passwd entry, *found = NULL;
    char *text = malloc(LONGEST_ENTRY);
    request->group = NOGROUP;
    if (text && getpwuid_r(user, &entry, text, LONGEST_ENTRY, &found) == 0 && found) {
        int count = MOST_GROUPS;
        request->group = found->pw_gid;
        if (getgrouplist(found->pw_name, found->pw_gid, request->groups, &count) >= 0) request->group_count = count;
    }
    free(text);
}

static int open_as(uid_t user, const char *path, char *resolved) {
    struct request *request = calloc(1, sizeof *request);
    if (!request) return -ENOMEM;
    request->path = path;
    request->resolved = resolved;
    find_groups(user, request);
    const struct zg_rights rights = {user, request->group, request->groups, (size_t)request->group_count};
    struct mode_check check = {.is_asked = 1, .has_user = 1, .user = user};
    int is_done = zg_rights_act(&rights, open_plainly, request);
    int result = is_done ? request->result : open_checked(path, &check, resolved);
    free(request);
    return result;
}

int zg_system_open_named(const char *path, enum zg_system_rights rights, uid_t user, char *resolved) {
    if (rights == ZG_SYSTEM_OF_USER && geteuid() == 0 && user != 0) return open_as(user, path, resolved);
    struct mode_check check = {
        .is_asked = rights != ZG_SYSTEM_OWN, .has_user = rights == ZG_SYSTEM_OF_USER, .user = user};
    return open_checked(path, &check, resolved);
}
