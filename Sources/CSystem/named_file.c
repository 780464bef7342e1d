// Opens a file that somebody else has named: without links, and with the rights of that user or only where everybody may
// read it. Acting as another user is a matter of one thread, which ends with the call; no state, no locks.

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zg_system.h"

enum { MOST_GROUPS = 1024, LONGEST_ENTRY = 64 << 10 };

// Whose rights the mode of files and directories has to grant, besides those that the kernel checks.
struct judge {
    int is_asked; // 0: the kernel's check is enough
    int has_user; // 0: everybody's
    uid_t user;
};

// Whether the mode grants a right, given as that of others. A group that is granted less than others counts: the user may be in it.
static int is_granted(const struct judge *judge, const struct stat *status, mode_t right) {
    if (!judge->is_asked || (judge->has_user && judge->user == 0)) return 1;
    if (judge->has_user && status->st_uid == judge->user) return (status->st_mode & right << 6) != 0;
    return (status->st_mode & right) != 0 && (status->st_mode & right << 3) != 0;
}

// What the kernel and drivers make up when it is read, and what belongs to whoever reads it.
static int is_made_up(int descriptor) {
    struct statfs system;
    if (fstatfs(descriptor, &system) != 0) return 1;
    return system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC || system.f_type == DEBUGFS_MAGIC ||
           system.f_type == TRACEFS_MAGIC || system.f_type == SECURITYFS_MAGIC;
}

static int open_last(int directory, const char *name, const struct judge *judge) {
    struct stat status;
    // Opening a device may do something, a FIFO may wait.
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return -errno;
    if (!S_ISREG(status.st_mode)) return S_ISLNK(status.st_mode) ? -ELOOP : -EINVAL;
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0) return -errno;
    // It may be another one by now.
    int error = fstat(file, &status) != 0              ? errno
                : !S_ISREG(status.st_mode)             ? EINVAL
                : is_made_up(file)                     ? EINVAL
                : !is_granted(judge, &status, S_IROTH) ? EACCES
                                                       : 0;
    if (error == 0) return file;
    close(file);
    return -error;
}

// Walks the resolved path once more, directory by directory: links that were put there meanwhile are not followed, and each
// directory is judged that is really gone through.
static int open_resolved(const char *path, const struct judge *judge) {
    int directory = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return -errno;
    for (;;) {
        path += strspn(path, "/");
        struct stat status;
        int error = fstat(directory, &status) != 0 ? errno : !is_granted(judge, &status, S_IXOTH) ? EACCES : 0;
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
        int next = *path == 0 ? open_last(directory, name, judge)
                              : openat(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int failure = *path != 0 && next < 0 ? -errno : next;
        close(directory);
        if (*path == 0 || next < 0) return failure;
        directory = next;
    }
}

static int open_judged(const char *path, const struct judge *judge, char *resolved) {
    return realpath(path, resolved) == NULL ? -errno : open_resolved(resolved, judge);
}

// What a thread needs to be another user.
struct request {
    const char *path;
    char *resolved;
    uid_t user;
    gid_t group;
    gid_t groups[MOST_GROUPS];
    int group_count;
    int is_other; // the kernel has made the thread this user
    int result;
};

// The C library would change all threads of the process: these are the system calls themselves, which change one.
static int become(const struct request *request) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    if (syscall(SYS_setgroups, (size_t)request->group_count, request->groups) != 0) return 0;
    syscall(SYS_setfsgid, request->group);
    syscall(SYS_setfsuid, request->user);
    if ((gid_t)syscall(SYS_setfsgid, -1) != request->group || (uid_t)syscall(SYS_setfsuid, -1) != request->user)
        return 0;
    // Without capabilities also where the process keeps them by its securebits.
    return syscall(SYS_capset, &header, none) == 0;
}

static void *act(void *argument) {
    struct request *request = argument;
    request->is_other = become(request);
    struct judge none = {0};
    if (request->is_other) request->result = open_judged(request->path, &none, request->resolved);
    return NULL;
}

// The groups of a user; one that no database knows has none.
static void find_groups(struct request *request) {
    struct passwd entry, *found = NULL;
    char *text = malloc(LONGEST_ENTRY);
    request->group = (gid_t)65534;
    request->group_count = 0;
    if (text && getpwuid_r(request->user, &entry, text, LONGEST_ENTRY, &found) == 0 && found) {
        int count = MOST_GROUPS;
        request->group = found->pw_gid;
        if (getgrouplist(found->pw_name, found->pw_gid, request->groups, &count) >= 0) request->group_count = count;
    }
    free(text);
}

static int open_as(uid_t user, const char *path, char *resolved) {
    struct request *request = calloc(1, sizeof *request);
    if (!request) return -ENOMEM;
    *request = (struct request){.path = path, .resolved = resolved, .user = user};
    find_groups(request);
    pthread_t thread;
    if (pthread_create(&thread, NULL, act, request) == 0) pthread_join(thread, NULL);
    struct judge judge = {.is_asked = 1, .has_user = 1, .user = user};
    int result = request->is_other ? request->result : open_judged(path, &judge, resolved);
    free(request);
    return result;
}

int zg_system_open_named(const char *path, enum zg_system_rights rights, uid_t user, char *resolved) {
    if (rights == ZG_SYSTEM_OF_USER && geteuid() == 0 && user != 0) return open_as(user, path, resolved);
    struct judge judge = {.is_asked = rights != ZG_SYSTEM_OWN, .has_user = rights == ZG_SYSTEM_OF_USER, .user = user};
    return open_judged(path, &judge, resolved);
}
