// Recognizes calls that make processes without fork's handlers. No lock of its own.

#define _GNU_SOURCE
#include "entry/forks.h"

#include <sched.h>
#include <sys/syscall.h>

#include "pages/window.h"
#include "platform/os.h"
#include "process/runtime.h"
#include "process/thread_entry.h"

bool zg_forks_by_flags(uint64_t flags) { return !(flags & CLONE_VM); }

bool zg_forks_by_number(long number, long a, long b) {
#ifdef SYS_fork
    if (number == SYS_fork) return true;
#endif
    // A child with a stack of its own does not return to the caller.
    if (number == SYS_clone) return zg_forks_by_flags((uint64_t)a) && !b;
    if (number != SYS_clone3) return false;
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack;
    } arguments = {0};
    uint64_t bytes = zg_min((uint64_t)b, sizeof arguments);
    if (zg_os_read_memory(&arguments, (uint64_t)a, bytes) != bytes) return false;
    return bytes == sizeof arguments && zg_forks_by_flags(arguments.flags) && !arguments.stack;
}

void zg_forks_leave_windows(const uint64_t *frame) {
    if (!zg_window_may_be() || !zg_os_is_own_process()) return;
    struct zg_thread *thread = zg_thread_enter(frame);
    if (!thread) return;
    zg_window_leave();
    zg_thread_leave(thread);
}
