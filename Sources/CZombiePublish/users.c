// Interposes setuid, setreuid and setresuid, by which a process drops its privileges for good. Afterwards the process
// writes a raw findings file of its own. The new user may not open the run's file, so the process must not keep that
// file open: it could truncate or overwrite the file. The statistics page passes to the new user.
// Cold; takes the report lock.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_no_user_is_published; // ISO C forbids an empty translation unit
#else

#include <unistd.h>

#include "findings/report.h"
#include "images/loader.h"
#include "process/runtime.h"
#include "settings/stats.h"

static int (*next_setuid)(uid_t), (*next_setreuid)(uid_t, uid_t), (*next_setresuid)(uid_t, uid_t, uid_t);

// Looked up before main: dlsym takes the loader's lock.
__attribute__((constructor(101))) static void look_up(void) {
    next_setuid = (int (*)(uid_t))zg_loader_next("setuid");
    next_setreuid = (int (*)(uid_t, uid_t))zg_loader_next("setreuid");
    next_setresuid = (int (*)(uid_t, uid_t, uid_t))zg_loader_next("setresuid");
}

// Gives the statistics page to the new user while the process still has the right to do so. Does nothing unless all
// three user ids are set: a process that can return to its old user id must still own the page after that.
static void before(uid_t real, uid_t effective, uid_t saved) {
    const uid_t stays = (uid_t)-1;
    if (real != stays && effective != stays && saved != stays && zg_runtime_is_started())
        zg_stats_change_owner(effective);
}

static int after(int result) {
    if (!zg_runtime_is_started()) return result;
    int error = errno;
    if (result == 0) zg_report_after_user_change();
    else zg_stats_change_owner(geteuid()); // the call failed: the user is unchanged
    errno = error;
    return result;
}

ZG_PUBLISH int setuid(uid_t user) {
    if (!next_setuid) look_up();
    before(user, user, user);
    return after(next_setuid(user));
}

ZG_PUBLISH int setreuid(uid_t real, uid_t effective) {
    if (!next_setreuid) look_up();
    before(real, effective, effective);
    return after(next_setreuid(real, effective));
}

ZG_PUBLISH int setresuid(uid_t real, uid_t effective, uid_t saved) {
    if (!next_setresuid) look_up();
    before(real, effective, saved);
    return after(next_setresuid(real, effective, saved));
}

#endif
