// Publishes the functions by which a process gives up its user's rights for good: from then on it has a file of raw
// findings of its own, instead of one that it could cut or write over though it may no longer open it. Cold; takes the
// report lock.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_no_user_is_published; // C wants a declaration in every file
#else

#include <unistd.h>

#include "findings/report.h"
#include "images/loader.h"
#include "process/runtime.h"

static int (*next_setuid)(uid_t), (*next_setreuid)(uid_t, uid_t), (*next_setresuid)(uid_t, uid_t, uid_t);

// Before main: dlsym takes the loader's lock.
__attribute__((constructor(101))) static void look_up(void) {
    next_setuid = (int (*)(uid_t))zg_loader_next("setuid");
    next_setreuid = (int (*)(uid_t, uid_t))zg_loader_next("setreuid");
    next_setresuid = (int (*)(uid_t, uid_t, uid_t))zg_loader_next("setresuid");
}

static int after(int result) {
    if (result != 0 || !zg_runtime_is_started()) return result;
    int error = errno;
    zg_report_after_user_change();
    errno = error;
    return result;
}

ZG_PUBLISH int setuid(uid_t user) {
    if (!next_setuid) look_up();
    return after(next_setuid(user));
}

ZG_PUBLISH int setreuid(uid_t real, uid_t effective) {
    if (!next_setreuid) look_up();
    return after(next_setreuid(real, effective));
}

ZG_PUBLISH int setresuid(uid_t real, uid_t effective, uid_t saved) {
    if (!next_setresuid) look_up();
    return after(next_setresuid(real, effective, saved));
}

#endif
