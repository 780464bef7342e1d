// Handshake between a thread that has a finding and the naming thread, which reports the finding with symbol names.
// Signal context; no lock, two futexes.

#include "faults/namer.h"

#include "findings/found.h"
#include "platform/os.h"

// Numbers of the last request, of the last one that the naming thread has seen, and of the last one served.
static uint32_t wanted, seen, served;
static bool is_end_wanted; // stays set: the process is about to end
// A request for one line was not served in time: later findings are not delayed.
static bool is_slow;
// State of the naming thread. Its pid is checked because the child of a fork has no such thread.
static int listener_pid, listener_tid;

bool zg_namer_is_waiting(void) {
    int pid = __atomic_load_n(&listener_pid, __ATOMIC_ACQUIRE);
    return pid && pid == zg_os_pid() && listener_tid != zg_os_tid();
}

// The wait is limited: the naming thread may be blocked by a lock that this thread holds, or by a thread that waits for
// this thread.
bool zg_namer_request(bool is_end) {
    const int64_t longest = INT64_C(10000000000), longest_line = INT64_C(2000000000), step = 100000000;
    if (!zg_namer_is_waiting() || (is_slow && !is_end)) return false;
    if (is_end) __atomic_store_n(&is_end_wanted, true, __ATOMIC_RELAXED);
    uint32_t number = __atomic_add_fetch(&wanted, 1, __ATOMIC_RELEASE), now;
    for (int64_t waited = 0; waited < (is_end ? longest : longest_line); waited += step) {
        now = __atomic_load_n(&served, __ATOMIC_ACQUIRE);
        if ((int32_t)(now - number) >= 0) return true;
        zg_os_futex_wake(&wanted, 1, true); // repeated, because a call may fail
        zg_os_futex_wait(&served, now, true, step);
    }
    now = __atomic_load_n(&served, __ATOMIC_ACQUIRE);
    is_slow = (int32_t)(now - number) < 0;
    return !is_slow;
}

static void wake(void) {
    __atomic_add_fetch(&wanted, 1, __ATOMIC_RELEASE);
    zg_os_futex_wake(&wanted, 1, true);
}

bool zg_namer_await(void) {
    zg_found_has_namer = zg_namer_is_waiting;
    zg_found_wake_namer = wake;
    listener_tid = zg_os_tid();
    __atomic_store_n(&listener_pid, zg_os_pid(), __ATOMIC_RELEASE);
    uint32_t now;
    while ((now = __atomic_load_n(&wanted, __ATOMIC_ACQUIRE)) == seen) zg_os_futex_wait(&wanted, now, true, -1);
    seen = now;
    return __atomic_load_n(&is_end_wanted, __ATOMIC_RELAXED);
}

void zg_namer_done(void) {
    __atomic_store_n(&served, seen, __ATOMIC_RELEASE);
    zg_os_futex_wake(&served, 1, true);
}
