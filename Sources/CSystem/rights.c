// Acts with the file rights of another user. The system calls themselves change the rights of one thread, while libc's
// functions of the same names change those of all threads. So the work is done in a new thread, whose rights end with
// it. Cold; no state, no locks.

#include "rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zg_system.h"

struct work {
    const struct zg_rights *rights;
    void (*act)(void *argument);
    void *argument;
    int is_done;
};

static int take(const struct zg_rights *rights) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    if (syscall(SYS_setgroups, rights->count, rights->groups) != 0) return 0;
    syscall(SYS_setfsgid, rights->group);
    syscall(SYS_setfsuid, rights->user);
    // These calls report no errors; with an invalid id they change nothing and return the current id.
    if ((gid_t)syscall(SYS_setfsgid, -1) != rights->group || (uid_t)syscall(SYS_setfsuid, -1) != rights->user) return 0;
    // Drop capabilities explicitly: securebits can preserve them when the user changes.
    return syscall(SYS_capset, &header, none) == 0;
}

static void *run(void *argument) {
    struct work *work = argument;
    work->is_done = take(work->rights);
    if (work->is_done) work->act(work->argument);
    return NULL;
}

int zg_rights_act(const struct zg_rights *rights, void (*act)(void *argument), void *argument) {
    if (geteuid() != 0 || rights->user == 0) return 0;
    struct work work = {.rights = rights, .act = act, .argument = argument};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, &work) == 0) pthread_join(thread, NULL);
    return work.is_done;
}

struct opening {
    int handle, flags, result;
};

// The link in /proc leads to the file of the handle, even if the file's name refers to another file by now.
static void open_link(void *argument) {
    struct opening *opening = argument;
    char link[48];
    snprintf(link, sizeof link, "/proc/self/fd/%d", opening->handle);
    int opened = open(link, opening->flags | O_CLOEXEC);
    opening->result = opened < 0 ? -errno : opened;
}

int zg_system_open_handle(int handle, int flags, uid_t user, gid_t group) {
    struct opening opening = {.handle = handle, .flags = flags};
    const struct zg_rights rights = {.user = user, .group = group};
    // If root cannot give up its rights (no CAP_SETUID), the caller's checks of the file must suffice.
    if (!zg_rights_act(&rights, open_link, &opening)) open_link(&opening);
    return opening.result;
}

int zg_system_seals(int descriptor) {
    int seals = fcntl(descriptor, F_GET_SEALS);
    return seals < 0 ? -errno : seals;
}

const int zg_system_seals_of_size = F_SEAL_SHRINK | F_SEAL_GROW;
